// The usual names are those of Python programs, compared case-sensitively.
#include "stoker/formats/fields.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 7> kImages = {"images", "image", "img", "x", "data", "image/encoded", "0"};
constexpr std::array<std::string_view, 6> kLabels = {"labels", "label", "y", "targets", "image/class/label", "1"};
constexpr std::array<std::string_view, 1> kTrain = {"train"};
constexpr std::array<std::string_view, 2> kTest = {"test", "val"};

bool holds(std::span<const std::string> present, std::string_view name) {
    return std::ranges::find(present, name) != present.end();
}

std::span<const std::string_view> split_names(Split split) {
    return split == Split::train ? std::span<const std::string_view>(kTrain) : std::span<const std::string_view>(kTest);
}

// Tries "train_images", "images_train", "train/images", then the names without a split. `taken` is the name of the
// other field, which is skipped.
std::optional<std::string> find_usual(std::span<const std::string> present, std::span<const std::string_view> names,
                                      std::span<const std::string_view> splits, std::string_view taken = {}) {
    for (const std::string_view split : splits) {
        for (const std::string_view name : names) {
            for (const std::string& full : {fmt::format("{}_{}", split, name), fmt::format("{}_{}", name, split),
                                            fmt::format("{}/{}", split, name)}) {
                if (holds(present, full) && full != taken) {
                    return full;
                }
            }
        }
    }
    for (const std::string_view name : names) {
        if (holds(present, name) && name != taken) {
            return std::string(name);
        }
    }
    return std::nullopt;
}

[[noreturn]] void refuse(std::span<const std::string> present, const std::string& path, std::string expected,
                         std::string hint) {
    constexpr std::size_t kListed = 20;
    const auto listed = present.first(std::min(present.size(), kListed));
    throw DataError({.path = path}, {.where = "fields",
                                     .expected = std::move(expected),
                                     .got = present.empty() ? "no fields"
                                                            : fmt::format("{}{}", fmt::join(listed, ", "),
                                                                          present.size() > kListed ? ", ..." : ""),
                                     .hint = std::move(hint)});
}

}  // namespace

std::span<const std::string_view> usual_image_names() {
    return kImages;
}

std::span<const std::string_view> usual_label_names() {
    return kLabels;
}

FoundFields find_fields(std::span<const std::string> present, const FieldNames& wanted, Split split,
                        const std::string& path) {
    const std::string label = wanted.unlabelled && !holds(present, wanted.label) ? "" : wanted.label;
    for (const std::string& name : {wanted.image, label}) {
        if (!name.empty() && !holds(present, name)) {
            refuse(present, path, fmt::format("a field named {}", name), "");
        }
    }
    std::vector<std::string> unnamed;  // without those that are asked for as further fields
    std::ranges::copy_if(present, std::back_inserter(unnamed), [&](const std::string& name) {
        return std::ranges::find(wanted.more, name, &FieldRequest::source) == wanted.more.end();
    });
    FoundFields found;
    found.label = label.empty() ? find_usual(unnamed, kLabels, split_names(split), wanted.image) : std::optional(label);
    std::optional<std::string> image =
        wanted.image.empty() ? find_usual(present, kImages, split_names(split), label) : std::optional(wanted.image);
    if (!image) {
        std::vector<std::string> others;
        std::ranges::copy_if(unnamed, std::back_inserter(others),
                             [&](const std::string& name) { return name != found.label; });
        if (others.size() != 1) {
            refuse(present, path, fmt::format("an image field named {}", fmt::join(kImages, ", ")),
                   "name it with data.fields.image (--image-field)");
        }
        image = others.front();
    }
    found.image = std::move(*image);
    if (wanted.unlabelled) {
        found.label.reset();
    }
    return found;
}

std::optional<std::string> find_label(std::span<const std::string> present, Split split, std::string_view image) {
    return find_usual(present, kLabels, split_names(split), image);
}

const std::string& present_name(const FieldRequest& request, std::span<const std::string> present) {
    return holds(present, request.name) && !holds(present, request.source()) ? request.name : request.source();
}

void check_unique(std::span<const std::string> names, const std::string& where) {
    std::vector<std::string_view> sorted(names.begin(), names.end());
    std::ranges::sort(sorted);
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
        throw DataError({}, {.where = where, .expected = "unique names", .got = fmt::format("{:?} twice", *twice)});
    }
}

namespace {

// What arrays of this kind are, for messages; empty if `dtype` and `shape` fit.
std::string_view unfit(FieldKind kind, DType dtype, const Shape& shape) {
    const std::size_t sides = shape.size();
    switch (kind) {
        case FieldKind::image:
            return is_image_dtype(dtype) && sides >= 2 && sides <= 4
                       ? ""
                       : "uint8, uint16, int16 or floats (H, W), (H, W, C) or (C, H, W), or clips of them";
        case FieldKind::mask:
            return dtype == DType::uint8 && (sides == 2 || sides == 3)
                       ? ""
                       : "uint8 (H, W) or (T, H, W), a class index for each pixel";
        case FieldKind::boxes:
            return dtype == DType::float32 && sides == 2 && shape.back() == 4 ? "" : "float32 (K, 4), x1 y1 x2 y2";
        case FieldKind::label:
        case FieldKind::tokens:
            return is_integer(dtype) ? "" : "integers";
        case FieldKind::bytes:
            return dtype == DType::uint8 && sides == 1 ? "" : "uint8 (K)";
        case FieldKind::value:
            break;
    }
    return "";
}

}  // namespace

Field array_field(const FieldRequest& request, DType dtype, const Shape& shape, const std::string& where) {
    const FieldKind kind = request.kind.value_or(FieldKind::value);
    if (const std::string_view expected = unfit(kind, dtype, shape); !expected.empty()) {
        throw Unsupported({.where = where,
                           .expected = fmt::format("{} of {} a sample", field_kind_name(kind), expected),
                           .got = fmt::format("{} ({})", dtype_name(dtype), fmt::join(shape, ", "))});
    }
    return {.name = request.name, .kind = kind, .dtype = dtype, .shape = has_pixels(kind) ? Shape() : shape};
}

bool fields_have_splits(std::span<const std::string> present) {
    const auto has = [&](Split split) {
        const auto found = find_usual(present, kImages, split_names(split));
        return found && std::ranges::find(kImages, *found) == kImages.end();
    };
    return has(Split::train) && has(Split::test);
}

}  // namespace stoker
