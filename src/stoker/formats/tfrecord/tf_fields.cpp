// Bytes of a mapped shard are not copied.
#include "stoker/formats/tfrecord/tf_fields.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

constexpr std::size_t kSides = 4;  // of a box

const TfFeature& require_feature(const TfFieldSource& source, FoundTfFeatures features, std::size_t at) {
    if (!features[at]) {
        throw DataError(
            {}, {.where = "tfrecord", .expected = fmt::format("a feature named {}", source.names[at]), .got = "none"});
    }
    return *features[at];
}

// Boxes are stored as one list of their sides.
Shape shape_of(FieldKind kind, std::int64_t count) {
    constexpr auto kEach = static_cast<std::int64_t>(kSides);
    return kind == FieldKind::boxes && count % kEach == 0 ? Shape{count / kEach, kEach} : Shape{count};
}

ArrayView view_of(TfKind kind, Shape shape, std::span<const std::byte> bytes) {
    const ArrayType type = kind == TfKind::floats
                               ? ArrayType{.kind = ArrayKind::floating, .item_size = sizeof(float)}
                               : ArrayType{.kind = ArrayKind::signed_integer, .item_size = sizeof(std::int64_t)};
    return {.name = "", .type = type, .shape = std::move(shape), .bytes = bytes};
}

// The side of the image that a fraction is of.
float image_side(const TfFieldSource& source, FoundTfFeatures features, std::size_t at) {
    const std::optional<std::int64_t> side = single_integer(require_feature(source, features, at));
    if (!side || *side < 1 || *side > std::numeric_limits<int>::max()) {
        throw DataError({}, {.where = "tfrecord",
                             .expected = fmt::format("a number of pixels as {}", source.names[at]),
                             .got = side ? fmt::format("{}", *side) : "other values"});
    }
    return static_cast<float>(*side);
}

void read_columns(const TfFieldSource& source, FoundTfFeatures features, FieldValue& value) {
    std::array<Buffer, kSides> columns;
    std::array<std::int64_t, kSides> counts{};
    for (std::size_t i = 0; i < kSides; ++i) {
        counts[i] = copy_values(require_feature(source, features, i), TfKind::floats, columns[i]);
    }
    if (std::ranges::count(counts, counts[0]) != static_cast<std::ptrdiff_t>(kSides)) {
        throw DataError({}, {.where = "tfrecord",
                             .expected = "as many values in each feature of the boxes",
                             .got = fmt::format("{}, {}, {} and {}", counts[0], counts[1], counts[2], counts[3])});
    }
    const float width = source.fractions ? image_side(source, features, kSides) : 1;
    const float height = source.fractions ? image_side(source, features, kSides + 1) : 1;
    const auto count = static_cast<std::size_t>(counts[0]);
    value.storage.resize(count * kSides * sizeof(float));
    for (std::size_t i = 0; i < kSides; ++i) {
        for (std::size_t box = 0; box < count; ++box) {
            float side = 0;
            std::memcpy(&side, columns[i].data() + box * sizeof side, sizeof side);
            side *= i % 2 == 0 ? width : height;
            std::memcpy(value.storage.data() + (box * kSides + i) * sizeof side, &side, sizeof side);
        }
    }
    value.set_elements(std::span<const std::byte>(value.storage.bytes()));
}

// The four names in the order of the sides, if their ends tell which side each is; otherwise as given.
std::vector<std::string> in_order_of_sides(const std::vector<std::string>& names) {
    constexpr std::array<std::string_view, kSides> kEnds = {"xmin", "ymin", "xmax", "ymax"};
    std::vector<std::string> ordered;
    for (const std::string_view end : kEnds) {
        const auto ends = [&](const std::string& name) { return name.ends_with(end); };
        if (std::ranges::count_if(names, ends) != 1) {
            return names;
        }
        ordered.push_back(*std::ranges::find_if(names, ends));
    }
    return ordered;
}

// True for the names that TensorFlow's object detection uses.
bool are_fractions(const std::vector<std::string>& names) {
    return std::ranges::all_of(names, [](const std::string& name) {
        constexpr std::array<std::string_view, kSides> kFractions = {
            "image/object/bbox/xmin", "image/object/bbox/ymin", "image/object/bbox/xmax", "image/object/bbox/ymax"};
        return std::ranges::find(kFractions, name) != kFractions.end();
    });
}

}  // namespace

TfFieldSource::TfFieldSource(const FieldRequest& request, std::span<const std::string> present,
                             const std::string& where) {
    const std::string& from = present_name(request, present);
    if (std::ranges::find(present, from) != present.end() || from.find(',') == std::string::npos) {
        names = {from};
        return;
    }
    columns = true;
    for (std::string_view rest = from; !rest.empty();) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        std::string_view name = rest.substr(0, comma);
        name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
        names.emplace_back(name.substr(0, name.find_last_not_of(' ') + 1));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    if (names.size() != kSides || request.kind != FieldKind::boxes) {
        throw Unsupported({.where = where,
                           .expected = "one feature, or the four of boxes (x1, y1, x2, y2) with the kind boxes",
                           .got = fmt::format("{} of kind {}", names.size(),
                                              field_kind_name(request.kind.value_or(FieldKind::value)))});
    }
    names = in_order_of_sides(names);
    fractions = are_fractions(names);
    if (fractions) {
        check_unique(names, where);
        names.insert(names.end(), {"image/width", "image/height"});
    }
}

Field describe_tf_field(const FieldRequest& request, const TfFieldSource& source, FoundTfFeatures features,
                        const std::string& where) {
    if (source.columns) {
        for (std::size_t at = 0; at < source.names.size(); ++at) {
            require_feature(source, features, at);
        }
        return array_field(request, DType::float32, {-1, static_cast<std::int64_t>(kSides)}, where);
    }
    const TfFeature& feature = require_feature(source, features, 0);
    if (feature.kind == TfKind::none) {
        throw DataError({}, {.where = "tfrecord", .expected = "values of " + source.names[0], .got = "none"});
    }
    if (feature.kind != TfKind::bytes) {
        const FieldKind kind = request.kind.value_or(FieldKind::value);
        return field_of_array(request, view_of(feature.kind, shape_of(kind, count_values(feature)), {}), false, where);
    }
    FieldRequest known = request;
    known.kind = request.kind.value_or(is_encoded_image(single_bytes(feature)) ? FieldKind::image : FieldKind::bytes);
    if (!has_pixels(*known.kind) && known.kind != FieldKind::bytes) {
        throw Unsupported({.where = where,
                           .expected = fmt::format("numbers for a field that is {}", field_kind_name(*known.kind)),
                           .got = "bytes"});
    }
    return field_of_encoded(known, where);
}

void make_scalar(Field& field, const FieldRequest& request) {
    if (field.shape == Shape{1} && !request.any_length) {
        field.shape.clear();
    }
}

void read_tf_field(const Field& field, const TfFieldSource& source, FoundTfFeatures features, bool stays,
                   FieldValue& value) {
    if (source.columns) {
        read_columns(source, features, value);
        return;
    }
    const TfFeature& feature = require_feature(source, features, 0);
    if (has_pixels(field.kind) || field.kind == FieldKind::bytes) {
        std::span<const std::byte> bytes = single_bytes(feature);
        if (!stays && !bytes.empty()) {
            value.storage.resize(bytes.size());
            std::memcpy(value.storage.data(), bytes.data(), bytes.size());  // std::ranges::copy copies byte by byte
            bytes = value.storage.bytes();
        }
        if (has_pixels(field.kind)) {
            set_encoded(bytes, value);
        } else {
            value.set_elements(bytes);
        }
        return;
    }
    const TfKind kind = field.dtype == DType::float32 ? TfKind::floats : TfKind::integers;
    const std::int64_t count = copy_values(feature, kind, value.storage);
    const bool scalar = field.shape.empty() && count == 1;
    set_array(field, view_of(kind, scalar ? Shape{} : shape_of(field.kind, count), value.storage.bytes()), value);
}

}  // namespace stoker
