// Overflow-checked arithmetic on shapes from files, transposition of images to (H, W, C), and labels.
#include "stoker/formats/array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <limits>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/class_names.h"

namespace stoker {
namespace {

constexpr std::int64_t kMaxSide = 65535;

// Whether the channels are the last of three sides, or the first; empty if they are neither.
std::optional<bool> channels_last(const Shape& shape) {
    const auto within = [](std::int64_t side, std::int64_t most) { return side >= 1 && side <= most; };
    for (const std::int64_t most : {kMaxByteChannels, kMaxChannels}) {
        const bool last = within(shape[2], most);
        const bool first = within(shape[0], most);
        if (last || first) {
            return last && (!first || most == kMaxByteChannels || shape[2] < shape[0]);
        }
    }
    return std::nullopt;
}

std::uint64_t read_natural(const std::byte* from, int size, bool big_endian) {
    std::uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
        const int at = big_endian ? i : size - 1 - i;
        value = value << 8 | std::to_integer<std::uint64_t>(from[at]);
    }
    return value;
}

constexpr const char* kExpected = "integers of (N) or (N, 1), or one-hot rows (N, K)";

std::string describe(const ArrayView& array) {
    return fmt::format("{} of ({})", array_type_name(array.type), fmt::join(array.shape, ", "));
}

bool is_column(const ArrayView& array) {
    return array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
}

bool is_rows(const ArrayView& array) {
    return array.shape.size() == 2 && array.shape[1] > 1 && array.shape[1] <= kMaxNumberedClasses;
}

[[noreturn]] void refuse(const ArrayView& array, std::string expected, std::string got,
                         std::optional<std::int64_t> row = {}) {
    throw DataError(
        {.path = {}, .index = row},
        {.where = array.name.empty() ? "labels" : array.name, .expected = std::move(expected), .got = std::move(got)});
}

// The encodings of 1 and of -0 (0 for integers) in the array's type.
struct Bits {
    std::int64_t one = 1;
    std::int64_t minus_zero = 0;
};

Bits bits_of(const ArrayType& type) {
    if (!type.is_float()) {
        return {};
    }
    const auto sign = static_cast<std::int64_t>(std::uint64_t{1} << (8 * type.item_size - 1));
    return {.one = type.kind == ArrayKind::bfloat16 ? 0x3F80
                   : type.item_size == 2            ? 0x3C00
                   : type.item_size == 4            ? 0x3F80'0000
                                                    : 0x3FF0'0000'0000'0000,
            .minus_zero = sign};
}

// Elements are compared as bits, so that no float has to be converted: 1, 0 and -0 have one encoding each.
std::vector<std::int64_t> one_hot(const ArrayView& array, std::int64_t first) {
    const std::int64_t rows = array.shape[0];
    const std::int64_t columns = array.shape[1];
    const Bits bits = bits_of(array.type);
    ArrayView raw = array;
    raw.type.kind = ArrayKind::unsigned_integer;
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), -1);
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t ones = 0;
        for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t value = integer_at(raw, array.fortran ? column * rows + row : row * columns + column);
            if (value == bits.one) {
                labels[static_cast<std::size_t>(row)] = column;
                ++ones;
            } else if (value != 0 && value != bits.minus_zero) {
                ones = columns + 1;
                break;
            }
        }
        if (ones != 1) {
            refuse(array, "one-hot rows: a single 1, otherwise zeros",
                   fmt::format("another row in {}", describe(array)), first + row);
        }
    }
    return labels;
}

}  // namespace

std::string array_type_name(const ArrayType& type) {
    const char* kind = type.kind == ArrayKind::boolean            ? "bool"
                       : type.kind == ArrayKind::signed_integer   ? "int"
                       : type.kind == ArrayKind::unsigned_integer ? "uint"
                       : type.kind == ArrayKind::bfloat16         ? "bfloat"
                                                                  : "float";
    const std::string bits = type.kind == ArrayKind::boolean ? "" : fmt::format("{}", 8 * type.item_size);
    return fmt::format("{}{}{}", kind, bits, type.big_endian && type.item_size > 1 ? " (big-endian)" : "");
}

std::optional<ArrayType> numpy_type(char code, std::uint64_t item_size) {
    constexpr std::string_view kCodes = "biuf";
    constexpr ArrayKind kKinds[] = {ArrayKind::boolean, ArrayKind::signed_integer, ArrayKind::unsigned_integer,
                                    ArrayKind::floating};
    const std::size_t at = kCodes.find(code);
    const bool byte = item_size == 1 && code != 'f';
    const bool wide = (item_size == 2 || item_size == 4 || item_size == 8) && code != 'b';
    if (at == std::string_view::npos || (!byte && !wide)) {
        return std::nullopt;
    }
    return ArrayType{.kind = kKinds[at], .item_size = static_cast<int>(item_size), .big_endian = false};
}

std::optional<DType> dtype_of_array(const ArrayType& type) {
    if (type.big_endian && type.item_size > 1) {
        return std::nullopt;
    }
    const auto of_sizes = [&](std::optional<DType> one, std::optional<DType> two, std::optional<DType> four,
                              std::optional<DType> eight) {
        return type.item_size == 1 ? one : type.item_size == 2 ? two : type.item_size == 4 ? four : eight;
    };
    switch (type.kind) {
        case ArrayKind::boolean:
            return DType::uint8;
        case ArrayKind::unsigned_integer:
            return of_sizes(DType::uint8, DType::uint16, std::nullopt, std::nullopt);
        case ArrayKind::signed_integer:
            return of_sizes(std::nullopt, DType::int16, DType::int32, DType::int64);
        case ArrayKind::floating:
            return of_sizes(std::nullopt, DType::float16, DType::float32, DType::float64);
        case ArrayKind::bfloat16:
            return DType::bfloat16;
    }
    return std::nullopt;
}

std::uint64_t checked_array_bytes(const ArrayType& type, const Shape& shape) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    auto bytes = static_cast<std::uint64_t>(type.item_size);
    bool possible = true;
    bool empty = false;
    for (const std::int64_t side : shape) {
        empty = empty || side == 0;
        const auto length = static_cast<std::uint64_t>(side);
        possible = possible && side >= 0 && (length == 0 || bytes <= kMost / length);
        bytes = possible && length != 0 ? bytes * length : bytes;
    }
    if (!possible) {
        throw DataError({}, {.where = "array",
                             .expected = "a shape without negative sides, below 2^63 bytes",
                             .got = fmt::format("({})", fmt::join(shape, ", "))});
    }
    return empty ? 0 : bytes;
}

std::int64_t integer_at(const ArrayView& array, std::int64_t at) {
    const ArrayType& type = array.type;
    if (type.is_float()) {
        throw DataError(
            {},
            {.where = array.name.empty() ? "array" : array.name, .expected = "integers", .got = array_type_name(type)});
    }
    const std::byte* from =
        array.bytes.data() + static_cast<std::size_t>(at) * static_cast<std::size_t>(type.item_size);
    const std::uint64_t natural = read_natural(from, type.item_size, type.big_endian);
    if (type.kind != ArrayKind::signed_integer) {
        return static_cast<std::int64_t>(natural);
    }
    const int unused = 64 - 8 * type.item_size;
    return static_cast<std::int64_t>(natural << unused) >> unused;
}

namespace {

[[noreturn]] void refuse_image(std::string_view type, const Shape& shape) {
    throw DataError({}, {.where = "image",
                         .expected = fmt::format("uint8, uint16, int16 or floats of (H, W), (H, W, C) or (C, H, W), or "
                                                 "clips of these, C being 1 to {}",
                                                 kMaxChannels),
                         .got = fmt::format("{} of ({})", type, fmt::join(shape, ", "))});
}

}  // namespace

ImageArray image_array(const ArrayType& type, const Shape& shape, bool clips) {
    ArrayType natural = type;
    natural.big_endian = false;
    const std::optional<DType> dtype = dtype_of_array(natural);
    if (!dtype) {
        refuse_image(array_type_name(type), shape);
    }
    ImageArray image = image_array(*dtype, shape, clips);
    image.big_endian = type.big_endian && type.item_size > 1;
    return image;
}

ImageArray image_array(DType dtype, const Shape& shape, bool clips) {
    const std::size_t sides = shape.size();
    if (sides == 4 || (sides == 3 && clips)) {
        if (shape[0] < 1 || shape[0] > kMaxSide) {
            refuse_image(dtype_name(dtype), shape);
        }
        ImageArray frame = image_array(dtype, Shape(shape.begin() + 1, shape.end()));
        if (frame.frames > 0) {
            refuse_image(dtype_name(dtype), shape);
        }
        frame.frames = shape[0];
        return frame;
    }
    if (!is_image_dtype(dtype) || (sides != 2 && sides != 3)) {
        refuse_image(dtype_name(dtype), shape);
    }
    const std::optional<bool> last = sides == 3 ? channels_last(shape) : std::optional(true);
    if (!last) {
        refuse_image(dtype_name(dtype), shape);
    }
    const bool planes = !*last;
    const std::size_t first = planes ? 1 : 0;
    const auto side = [&](std::size_t at) {
        if (shape[at] < 1 || shape[at] > kMaxSide) {
            throw DataError({}, {.where = "image",
                                 .expected = fmt::format("sides of 1 to {}", kMaxSide),
                                 .got = fmt::format("({})", fmt::join(shape, ", "))});
        }
        return static_cast<int>(shape[at]);
    };
    return {.height = side(first),
            .width = side(first + 1),
            .channels = sides == 2 ? 1 : side(planes ? 0 : 2),
            .planes = planes,
            .dtype = dtype == DType::bfloat16 ? DType::float32 : dtype,
            .bfloat16 = dtype == DType::bfloat16};
}

namespace {

// The distances of neighbours in memory, in elements.
struct ElementSteps {
    std::size_t frame = 0;
    std::size_t y = 0;
    std::size_t x = 0;
    std::size_t c = 0;
};

ElementSteps steps_of(const ImageArray& layout, bool fortran) {
    ElementSteps steps;
    std::size_t step = 1;
    const auto next = [&step](std::size_t& own, std::int64_t side) {
        own = step;
        step *= static_cast<std::size_t>(side);
    };
    const std::array inner = layout.planes
                                 ? std::array{std::pair(&steps.c, layout.channels), std::pair(&steps.y, layout.height),
                                              std::pair(&steps.x, layout.width)}
                                 : std::array{std::pair(&steps.y, layout.height), std::pair(&steps.x, layout.width),
                                              std::pair(&steps.c, layout.channels)};
    if (fortran) {
        next(steps.frame, std::max<std::int64_t>(layout.frames, 1));
        std::ranges::for_each(inner, [&](const auto& side) { next(*side.first, side.second); });
    } else {
        std::for_each(inner.rbegin(), inner.rend(), [&](const auto& side) { next(*side.first, side.second); });
        next(steps.frame, std::max<std::int64_t>(layout.frames, 1));
    }
    return steps;
}

// `bytes` begin with the image's first element.
void set_image(const ImageArray& layout, bool fortran, const ElementSteps& steps, std::span<const std::byte> bytes,
               FieldValue& value) {
    const auto height = static_cast<std::size_t>(layout.height);
    const auto width = static_cast<std::size_t>(layout.width);
    const auto channels = static_cast<std::size_t>(layout.channels);
    const std::size_t size = layout.stored_item_size();
    const std::size_t items = height * width * channels;
    value.set_raw(fortran ? bytes : bytes.first(items * size), layout.height, layout.width, layout.channels);
    value.dtype = layout.dtype;
    const bool deep = value.is_deep();
    value.planes = deep && layout.planes && !fortran;
    if (!fortran && !layout.big_endian && !layout.bfloat16 && (deep || !layout.planes || layout.channels == 1)) {
        return;
    }
    Buffer transposed;
    const std::less_equal<> before;
    const bool inside = before(value.storage.data(), bytes.data()) &&
                        before(bytes.data(), value.storage.data() + value.storage.capacity());
    Buffer& out = inside ? transposed : value.storage;
    const std::size_t widened = item_size(layout.dtype);  // a bfloat16 is the upper half of a float32
    out.resize(items * widened);
    if (layout.bfloat16) {
        std::ranges::fill(out.bytes(), std::byte{0});
    }
    value.planes = false;
    std::byte* to = out.data();
    for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < width; ++x) {
            const std::byte* from = bytes.data() + (y * steps.y + x * steps.x) * size;
            for (std::size_t c = 0; c < channels; ++c, to += widened) {
                const std::byte* element = from + c * steps.c * size;
                std::byte* const place = to + (widened - size);
                layout.big_endian ? std::reverse_copy(element, element + size, place)
                                  : std::copy_n(element, size, place);
            }
        }
    }
    if (&out == &transposed) {
        value.storage = std::move(transposed);
    }
    value.bytes = value.storage.bytes();
}

}  // namespace

void set_pixels(const ImageArray& layout, bool fortran, std::span<const std::byte> bytes, FieldValue& value) {
    const ElementSteps steps = steps_of(layout, fortran);
    if (layout.frames == 0) {
        set_image(layout, fortran, steps, bytes, value);
        return;
    }
    for (const std::int64_t frame : value.begin_clip(layout.frames)) {
        const std::size_t first = static_cast<std::size_t>(frame) * steps.frame * layout.stored_item_size();
        set_image(layout, fortran, steps, bytes.subspan(first), value.frames.emplace_back());
    }
}

bool may_be_labels(const ArrayView& array, std::int64_t count) {
    return (is_column(array) ? !array.type.is_float() : is_rows(array)) && array.shape[0] == count;
}

std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count, std::int64_t first) {
    if (!may_be_labels(array, count)) {
        const bool other_count = !array.shape.empty() && may_be_labels(array, array.shape[0]);
        refuse(array, other_count ? fmt::format("{} labels, one for each image", count) : kExpected, describe(array));
    }
    require_memory(static_cast<std::uint64_t>(count) * sizeof(std::int64_t), array.name);
    if (is_rows(array)) {
        return one_hot(array, first);
    }
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    for (std::int64_t row = 0; row < count; ++row) {
        const std::int64_t label = integer_at(array, row);
        const bool wrapped = array.type.kind == ArrayKind::unsigned_integer && label < 0;
        if (wrapped || label < -1) {
            refuse(array, "labels of 0 or more, or -1 for none", wrapped ? "2^63 or more" : fmt::format("{}", label),
                   first + row);
        }
        labels[static_cast<std::size_t>(row)] = label;
    }
    return labels;
}

}  // namespace stoker
