// Values are not changed: transcoding concerns the main image only.
#include "stoker/pack/packed_fields.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/pack/transcode.h"
#include "stoker/recipe/field_keys.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(const Field& field, std::string_view expected, std::size_t bytes) {
    throw DataError({}, {.where = field.name,
                         .expected = fmt::format("{} for {}", expected, field.name),
                         .got = fmt::format("{} bytes", bytes)});
}

// The shape of a value of `bytes` bytes.
Shape shape_of(const Field& field, std::size_t bytes) {
    const std::size_t item = field.item_bytes();
    Shape shape = field.shape;
    const bool fits = !field.any_length() ? bytes == item : item == 0 ? bytes == 0 : bytes % item == 0;
    if (!fits) {
        refuse(field, fmt::format("{} of ({})", dtype_name(field.dtype), fmt::join(field.shape, ", ")), bytes);
    }
    if (field.any_length()) {
        shape.front() = item == 0 ? 0 : static_cast<std::int64_t>(bytes / item);
    }
    return shape;
}

template <typename Number>
Number number_of(const Field& field, std::span<const std::byte> bytes) {
    Number number{};
    if (bytes.size() != sizeof number) {
        refuse(field, fmt::format("one {}", dtype_name(field.dtype)), bytes.size());
    }
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

StkImage image_of(const FieldValue& value) {
    if (value.encoded) {
        return {.bytes = value.bytes, .codec = stk_codec_of(value.bytes)};
    }
    return {.bytes = value.bytes,
            .codec = StkCodec::raw,
            .height = value.height,
            .width = value.width,
            .channels = value.channels};
}

template <typename Number>
std::span<const std::byte> bytes_of(const Number& number) {
    return std::as_bytes(std::span(&number, 1));
}

}  // namespace

StkField stk_field_of(const Field& field) {
    StkField stored{.name = field.name, .kind = StkKind::tensor};
    if (has_pixels(field.kind)) {
        stored.kind = StkKind::image;
    } else if (field.kind == FieldKind::bytes) {
        stored.kind = StkKind::bytes;
    } else if (field.shape.empty() && field.dtype == DType::int64) {
        stored.kind = StkKind::integer;
    } else if (field.shape.empty() && field.dtype == DType::float64) {
        stored.kind = StkKind::number;
    } else {
        stored.dtype = field.dtype;
        stored.rank = static_cast<int>(field.shape.size());
    }
    return stored;
}

StkValue packed_value(const Field& field, const FieldValue& value) {
    switch (stk_field_of(field).kind) {
        case StkKind::image:
            return image_of(value);
        case StkKind::bytes:
            return StkBytes(value.bytes);
        case StkKind::integer:
            return number_of<std::int64_t>(field, value.bytes);
        case StkKind::number:
            return number_of<double>(field, value.bytes);
        default:
            break;
    }
    // A writer only reads it.
    return TensorView{.data = const_cast<std::byte*>(value.bytes.data()),
                      .dtype = field.dtype,
                      .shape = shape_of(field, value.bytes.size())};
}

std::span<const std::byte> value_bytes(const StkValue& value) {
    if (const auto* image = std::get_if<StkImage>(&value)) {
        return image->bytes;
    }
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return bytes_of(*integer);
    }
    if (const auto* number = std::get_if<double>(&value)) {
        return bytes_of(*number);
    }
    if (const auto* bytes = std::get_if<StkBytes>(&value)) {
        return *bytes;
    }
    const auto& tensor = std::get<TensorView>(value);
    return {tensor.data, tensor.bytes()};
}

std::optional<StoredArray> stored_array(const StkValue& value) {
    if (const auto* image = std::get_if<StkImage>(&value)) {
        if (image->codec != StkCodec::raw) {
            return std::nullopt;
        }
        StoredArray array{.shape = {image->height, image->width}};
        if (image->channels != 1) {
            array.shape.push_back(image->channels);
        }
        return array;
    }
    if (const auto* tensor = std::get_if<TensorView>(&value)) {
        return StoredArray{.dtype = tensor->dtype, .shape = tensor->shape};
    }
    if (std::holds_alternative<StkBytes>(value)) {
        return std::nullopt;
    }
    return StoredArray{.dtype = std::holds_alternative<double>(value) ? DType::float64 : DType::int64, .shape = {}};
}

void refuse_bfloat16(std::span<const Field> fields, const std::string& where) {
    const auto found = std::ranges::find(fields, DType::bfloat16, &Field::dtype);
    if (found != fields.end()) {
        throw InvalidArgument({.where = where,
                               .expected = "fields of types that NumPy has",
                               .got = fmt::format("bfloat16 for {}", found->name),
                               .hint = "x.stk holds bfloat16"});
    }
}

std::uint64_t hash_values(std::span<const StkValue> values, std::uint64_t seed) {
    for (const StkValue& value : values) {
        Shape shape;
        if (const auto* image = std::get_if<StkImage>(&value)) {
            shape = {image->height, image->width, image->channels};
        } else if (const auto* tensor = std::get_if<TensorView>(&value)) {
            shape = tensor->shape;
        }
        seed = hash_bytes(value_bytes(value), hash_bytes(std::as_bytes(std::span(shape)), seed));
    }
    return seed;
}

std::vector<FieldRequest> requests_of(std::span<const Field> fields) {
    std::vector<FieldRequest> requests;
    for (const Field& field : fields) {
        requests.push_back({.name = field.name, .kind = field.kind});
    }
    return requests;
}

std::string field_text(const Field& field, const std::string& from) {
    return fmt::format("{}{}:{}", field.name, from.empty() || from == field.name ? "" : "=" + from,
                       field_kind_name(field.kind));
}

void check_field_names(std::span<const Field> fields, const std::string& where,
                       std::span<const std::string_view> taken) {
    std::vector<std::string> names;
    for (const Field& field : fields) {
        const std::string name = lower_case(field.name);
        const bool used =
            std::ranges::find(taken, name) != taken.end() || std::ranges::find(names, name) != names.end();
        if (used || !is_field_name(field.name)) {
            throw InvalidArgument(
                {.where = where,
                 .expected = used ? "names of fields that differ from each other and from those of the format"
                                  : "names of fields of letters, digits and \"_\", and not image, label, index or key",
                 .got = fmt::format("\"{}\"", field.name),
                 .hint = "<--field NEW_NAME=NAME> gives a field another name"});
        }
        names.push_back(name);
    }
}

}  // namespace stoker
