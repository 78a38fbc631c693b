#include "stoker/train/step/missing_gradients.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {

void refuse_missing_gradients(std::span<const std::string> names) {
    throw InvalidArgument(
        {.where = "model",
         .expected = "a loss that depends on every trained parameter, as several processes need",
         .got = fmt::format("{} without a gradient", names.empty() ? "some" : fmt::to_string(fmt::join(names, ", "))),
         .hint = "name them in model.freeze, or train with one process"});
}

}  // namespace stoker
