// The parts of Dataset that its subclasses and users share.
#include "stoker/formats/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {

std::size_t Field::item_bytes() const {
    const Shape item(shape.begin() + (any_length() ? 1 : 0), shape.end());
    return static_cast<std::size_t>(element_count(item)) * item_size(dtype);
}

std::string describe_fields(std::span<const Field> fields) {
    std::string text;
    for (const Field& field : fields) {
        text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", field.name, dtype_name(field.dtype),
                            fmt::join(field.shape, ", "));
    }
    return text.empty() ? "none" : text;
}

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
