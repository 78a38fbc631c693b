// The parts of Dataset that its subclasses and users share.
#include "stoker/formats/dataset.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

void Dataset::check_index(std::int64_t index) const {
    if (index < 0 || index >= size()) {
        throw InvalidArgument(
            {.where = path(), .expected = fmt::format("an index below {}", size()), .got = fmt::format("{}", index)});
    }
}

std::string key_or_index(const Dataset& dataset, std::int64_t index) {
    try {
        return dataset.key(index);
    } catch (const DataError&) {
        return std::to_string(index);
    }
}

}  // namespace stoker
