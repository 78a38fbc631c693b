// Overflow-checked arithmetic on shapes from files, and transposition of images to (H, W, C).
#include "stoker/formats/array.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <limits>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::int64_t kMaxChannels = 4;
constexpr std::int64_t kMaxSide = 65535;

bool is_channels(std::int64_t side) {
    return side >= 1 && side <= kMaxChannels;
}

std::uint64_t read_natural(const std::byte* from, int size, bool big_endian) {
    std::uint64_t value = 0;
    for (int i = 0; i < size; ++i) {
        const int at = big_endian ? i : size - 1 - i;
        value = value << 8 | std::to_integer<std::uint64_t>(from[at]);
    }
    return value;
}

}  // namespace

std::string array_type_name(const ArrayType& type) {
    const char* kind = type.kind == ArrayKind::boolean            ? "bool"
                       : type.kind == ArrayKind::signed_integer   ? "int"
                       : type.kind == ArrayKind::unsigned_integer ? "uint"
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
    if (type.kind == ArrayKind::floating) {
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

ImageArray image_array(const ArrayType& type, const Shape& shape) {
    const bool fits = shape.size() == 2 || (shape.size() == 3 && (is_channels(shape[2]) || is_channels(shape[0])));
    if (!type.is_uint8() || !fits) {
        throw DataError({}, {.where = "image",
                             .expected = "uint8 of (H, W), (H, W, C) or (C, H, W), C being 1 to 4",
                             .got = fmt::format("{} of ({})", array_type_name(type), fmt::join(shape, ", "))});
    }
    const bool planes = shape.size() == 3 && !is_channels(shape[2]);
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
            .channels = shape.size() == 2 ? 1 : side(planes ? 0 : 2),
            .planes = planes};
}

void set_pixels(const ImageArray& layout, bool fortran, std::span<const std::byte> bytes, Sample& sample) {
    sample.set_raw(bytes, layout.height, layout.width, layout.channels);
    if (!fortran && (!layout.planes || layout.channels == 1)) {
        return;
    }
    const auto height = static_cast<std::size_t>(layout.height);
    const auto width = static_cast<std::size_t>(layout.width);
    const auto channels = static_cast<std::size_t>(layout.channels);
    // Strides of `bytes`: C order (C, H, W), or Fortran order of (C, H, W) or (H, W, C).
    const std::size_t step_c = !fortran ? height * width : layout.planes ? 1 : height * width;
    const std::size_t step_y = !fortran ? width : layout.planes ? channels : 1;
    const std::size_t step_x = !fortran ? 1 : layout.planes ? channels * height : height;
    Buffer transposed;
    const std::less_equal<> before;
    const bool inside = before(sample.storage.data(), bytes.data()) &&
                        before(bytes.data(), sample.storage.data() + sample.storage.capacity());
    Buffer& out = inside ? transposed : sample.storage;
    out.resize(bytes.size());
    std::byte* to = out.data();
    for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < width; ++x) {
            const std::byte* from = bytes.data() + y * step_y + x * step_x;
            for (std::size_t c = 0; c < channels; ++c) {
                *to++ = from[c * step_c];
            }
        }
    }
    if (&out == &transposed) {
        sample.storage = std::move(transposed);
    }
    sample.bytes = sample.storage.bytes();
}

}  // namespace stoker
