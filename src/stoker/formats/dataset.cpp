// The parts of Dataset that its subclasses and users share.
#include "stoker/formats/dataset.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 7> kKindNames = {"value", "label", "image", "mask", "boxes", "tokens", "bytes"};

}  // namespace

std::string_view field_kind_name(FieldKind kind) {
    return kKindNames.at(static_cast<std::size_t>(kind));
}

std::optional<FieldKind> field_kind_named(std::string_view name) {
    const auto* found = std::ranges::find(kKindNames, name);
    return found == kKindNames.end() ? std::nullopt : std::optional(static_cast<FieldKind>(found - kKindNames.begin()));
}

std::size_t Field::item_bytes() const {
    const Shape item(shape.begin() + (any_length() ? 1 : 0), shape.end());
    return static_cast<std::size_t>(element_count(item)) * item_size(dtype);
}

std::string describe_fields(std::span<const Field> fields) {
    std::string text;
    for (const Field& field : fields) {
        const std::string separator = text.empty() ? "" : ", ";
        text += has_pixels(field.kind) ? fmt::format("{}{} {}", separator, field.name, field_kind_name(field.kind))
                                       : fmt::format("{}{} {} ({})", separator, field.name, dtype_name(field.dtype),
                                                     fmt::join(field.shape, ", "));
    }
    return text.empty() ? "none" : text;
}

std::vector<std::int64_t> FrameWindow::of(std::int64_t total) const {
    std::vector<std::int64_t> frames(static_cast<std::size_t>(count == 0 ? total : count));
    const std::int64_t step = count == 0 ? 1 : stride;
    const std::int64_t span = (std::ssize(frames) - 1) * step + 1;
    const std::int64_t room = std::max<std::int64_t>(total - span, 0);
    std::int64_t frame = std::min(static_cast<std::int64_t>(at * static_cast<double>(room + 1)), room);
    for (std::int64_t& each : frames) {
        each = std::min(frame, total - 1);
        frame += step;
    }
    return frames;
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

std::optional<std::int64_t> known_label(const Dataset& dataset, std::int64_t index) {
    try {
        return dataset.label(index);
    } catch (const DataError&) {
        return std::nullopt;
    }
}

}  // namespace stoker
