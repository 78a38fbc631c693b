#include "stoker/train/step/divided_gradients.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

#include "stoker/base/error.h"

namespace stoker {

DividedGradients divided_gradients(const Model& model, const Group& tensor) {
    DividedGradients divided{.sum = [&tensor](const at::Tensor& values) { tensor.all_reduce(values); }};
    std::int64_t place = 0;
    for (const auto& [name, parameter] : model.trainable_parameters()) {
        if (!parameter.grad().defined()) {
            continue;
        }
        if (std::ranges::find(model.divided(), name, &DividedParameter::name) != model.divided().end()) {
            divided.places.push_back(place);
        }
        ++place;
    }
    return divided;
}

void share_overflow(const at::Tensor& found_inf, const SumOverRanks& sum) {
    sum(found_inf);
    found_inf.clamp_max_(1);
}

void refuse_missing_gradients(const std::vector<NamedTensor>& parameters) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : parameters) {
        if (!tensor.grad().defined()) {
            names.push_back(name);
        }
    }
    throw InvalidArgument(
        {.where = "model",
         .expected = "a loss that depends on every trained parameter, as several processes need",
         .got = fmt::format("{} without a gradient", names.empty() ? "some" : fmt::to_string(fmt::join(names, ", "))),
         .hint = "name them in model.freeze, or train with one process"});
}

}  // namespace stoker
