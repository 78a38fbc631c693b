// Elements that no field has (int8, uint32, uint64) become int64.
#include "stoker/formats/column_values.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "column", .expected = std::move(expected), .got = std::move(got)});
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
    if (bytes.size() < kWord || at > bytes.size() - kWord) {
        bad(fmt::format("at least {} bytes", at + kWord), fmt::format("{}", bytes.size()));
    }
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, kWord);
    return word;
}

bool is_widened(const ArrayType& type) {
    return !dtype_of_array(type) && !type.is_float();
}

// The same integers as int64, in `storage`.
ArrayView widened(const ArrayView& array, Buffer& storage) {
    const auto count = static_cast<std::int64_t>(array.bytes.size() / static_cast<std::size_t>(array.type.item_size));
    const auto size = static_cast<std::size_t>(count) * sizeof(std::int64_t);
    require_memory(size, "");
    Buffer wide(size);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t number = integer_at(array, i);
        if (number < 0 && array.type.kind == ArrayKind::unsigned_integer) {
            bad("integers below 2^63", "2^63 or more");
        }
        std::memcpy(wide.data() + static_cast<std::size_t>(i) * sizeof number, &number, sizeof number);
    }
    storage = std::move(wide);
    ArrayView view = array;
    view.type = {.kind = ArrayKind::signed_integer, .item_size = sizeof(std::int64_t)};
    view.bytes = storage.bytes();
    return view;
}

// A file of an image as uint8.
bool is_encoded_row(const ArrayView& array) {
    return array.shape.size() == 1 && array.type.is_uint8() && is_encoded_image(array.bytes);
}

struct PillowImage {
    std::string_view mode;
    int width = 0;
    int height = 0;
    std::span<const std::byte> pixels;
};

PillowImage parse_pillow(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeader = 3 * kWord;
    constexpr std::uint32_t kMostSide = 1U << 20;
    constexpr std::uint32_t kLongestMode = 16;
    const std::uint32_t width = word_at(bytes, 0);
    const std::uint32_t height = word_at(bytes, kWord);
    const std::uint32_t length = word_at(bytes, 2 * kWord);
    if (width == 0 || height == 0 || width > kMostSide || height > kMostSide || length > kLongestMode ||
        length > bytes.size() - kHeader) {
        bad("the width, height and mode of Pillow's pixels", describe_bytes(bytes));
    }
    return {.mode = as_text(bytes.subspan(kHeader, length)),
            .width = static_cast<int>(width),
            .height = static_cast<int>(height),
            .pixels = bytes.subspan(kHeader + length)};
}

// Palettes are not stored, so that indices are pixels for masks only.
void set_pillow(std::span<const std::byte> bytes, bool mask, FieldValue& value) {
    const PillowImage image = parse_pillow(bytes);
    const int channels = image.mode == "L" || (mask && image.mode == "P") ? 1 : image.mode == "RGB" ? 3 : 0;
    if (channels == 0) {
        bad(mask ? "raw pixels of the modes L and P" : "raw pixels of the modes RGB and L",
            fmt::format("the mode {:?}", image.mode));
    }
    const std::uint64_t size = std::uint64_t(image.width) * std::uint64_t(image.height) * std::uint64_t(channels);
    if (size != image.pixels.size()) {
        bad(fmt::format("{} bytes of pixels", size), fmt::format("{}", image.pixels.size()));
    }
    value.set_raw(image.pixels, image.height, image.width, channels);
}

void set_one_image(bool raw, std::span<const std::byte> bytes, bool mask, bool clips, FieldValue& value) {
    if (raw) {
        set_pillow(bytes, mask, value);
    } else {
        set_encoded(bytes, value, clips);
    }
}

// The frames are views of `bytes`, which stay valid as those of an image do.
void set_list(const SampleColumn& column, std::span<const std::byte> bytes, bool mask, FieldValue& value) {
    const std::uint32_t count = word_at(bytes, column.list_begin);
    const std::size_t sizes = column.list_begin + kWord;
    if (count == 0 || count > (bytes.size() - sizes) / kWord) {
        bad("a list of images", fmt::format("{} images in {} bytes", count, bytes.size()));
    }
    std::vector<std::size_t> begins{sizes + count * kWord};
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t size = word_at(bytes, sizes + i * kWord);
        if (size > bytes.size() - begins.back()) {
            bad(fmt::format("an image within {} bytes", bytes.size()), fmt::format("{} at {}", size, begins.back()));
        }
        begins.push_back(begins.back() + size);
    }
    for (const std::int64_t number : value.begin_clip(count)) {
        const auto at = static_cast<std::size_t>(number);
        const auto frame = bytes.subspan(begins[at], begins[at + 1] - begins[at]);
        set_one_image(column.raw_list, frame, mask, false, value.frames.emplace_back());
    }
}

void set_column_pixels(const SampleColumn& column, std::span<const std::byte> bytes, bool mask, bool clips,
                       FieldValue& value) {
    switch (column.kind) {
        case ColumnKind::images:
            set_list(column, bytes, mask, value);
            return;
        case ColumnKind::array: {
            const ArrayView array = column.array(bytes);
            if (is_encoded_row(array)) {
                set_encoded(array.bytes, value, clips);
                return;
            }
            const ArrayType type = array.type.kind == ArrayKind::boolean ? ArrayType{} : array.type;
            set_pixels(image_array(type, array.shape, clips || mask), false, array.bytes, value);
            return;
        }
        case ColumnKind::raw_image:
        case ColumnKind::image:
        case ColumnKind::bytes:
            set_one_image(column.kind == ColumnKind::raw_image, bytes, mask, clips, value);
            return;
        default:
            bad("an image", fmt::format("{} in the encoding {}", column.name, column.encoding));
    }
}

FieldNumbers numbers_of(const SampleColumn& column, std::span<const std::byte> bytes) {
    if (column.kind == ColumnKind::numbers) {
        return column.numbers(bytes);
    }
    return parse_field_number(as_text(bytes));
}

}  // namespace

ArrayView whole_array(const ArrayType& type, Shape shape, std::span<const std::byte> bytes) {
    if (const std::uint64_t size = checked_array_bytes(type, shape); size != bytes.size()) {
        bad(fmt::format("{} bytes for {} of ({})", size, array_type_name(type), fmt::join(shape, ", ")),
            fmt::format("{}", bytes.size()));
    }
    return {.name = {}, .type = type, .shape = std::move(shape), .bytes = bytes};
}

Field describe_column(const FieldRequest& request, const SampleColumn& column, std::span<const std::byte> bytes,
                      const std::string& where) {
    const FieldKind kind = request.kind.value_or(FieldKind::value);
    if (column.kind == ColumnKind::refused) {
        throw Unsupported({.where = where,
                           .expected = "a column of images, arrays, numbers, text or bytes",
                           .got = fmt::format("the encoding {}", column.encoding)});
    }
    if (kind == FieldKind::bytes) {
        return {.name = request.name, .kind = kind, .dtype = DType::uint8, .shape = {-1}};
    }
    switch (column.kind) {
        case ColumnKind::array: {
            ArrayView array = column.array(bytes);
            if (is_encoded_row(array) && (!request.kind || has_pixels(kind))) {
                return field_of_encoded(request, where);
            }
            if (is_widened(array.type)) {
                array.type = {.kind = ArrayKind::signed_integer, .item_size = sizeof(std::int64_t)};
            }
            return field_of_array(request, array, false, where);
        }
        case ColumnKind::numbers:
            return field_of_numbers(request, column.numbers(bytes).shape, false, where);
        case ColumnKind::text:
        case ColumnKind::bytes:
            if (is_encoded_image(bytes) || has_pixels(kind)) {
                return field_of_encoded(request, where);
            }
            if (!request.kind) {
                return {.name = request.name, .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}};
            }
            return field_of_numbers(request, numbers_of(column, bytes).shape, false, where);
        default:
            return field_of_encoded(request, where);
    }
}

void read_column(const Field& field, const SampleColumn& column, std::span<const std::byte> bytes, FieldValue& value) {
    if (field.kind == FieldKind::bytes) {
        value.set_elements(bytes);
    } else if (has_pixels(field.kind)) {
        set_column_pixels(column, bytes, field.kind == FieldKind::mask, false, value);
    } else if (column.kind == ColumnKind::array) {
        const ArrayView array = column.array(bytes);
        set_array(field, is_widened(array.type) ? widened(array, value.storage) : array, value);
    } else {
        set_numbers(field, numbers_of(column, bytes), value);
    }
}

void read_column_image(const SampleColumn& column, std::span<const std::byte> bytes, FieldValue& value, bool clips) {
    set_column_pixels(column, bytes, false, clips, value);
}

std::int64_t column_label(const SampleColumn& column, std::span<const std::byte> bytes) {
    std::int64_t label = -1;
    if (column.kind == ColumnKind::array) {
        ArrayView array = column.array(bytes);
        const bool row = array.shape.size() == 1 && array.shape[0] != 1;
        array.shape.insert(array.shape.begin(), 1);
        if (!row) {
            array.shape = {static_cast<std::int64_t>(array.bytes.size()) / array.type.item_size};
        }
        label = array_labels(array, 1).front();
    } else {
        const FieldNumbers numbers = numbers_of(column, bytes);
        if (!numbers.whole || !numbers.shape.empty()) {
            bad("a class index", describe_bytes(bytes));
        }
        label = numbers.integers.front();
    }
    if (label < -1) {
        bad("a class index of 0 or more, or -1", fmt::format("{}", label));
    }
    return label;
}

}  // namespace stoker
