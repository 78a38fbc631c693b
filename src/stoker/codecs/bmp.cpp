// Layout: a file header of 14 bytes with the offset of the pixels at byte 10; a second header that begins with its
// own size, 12 bytes (OS/2) or at least 40 (Windows); the palette or the colour masks. Rows are padded to 4 bytes.
#include "stoker/codecs/decoders.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kMasks = 54;  // offset of the colour masks of compression 3 and 6, for every header size
constexpr std::uint32_t kCoreHeader = 12;
constexpr std::uint32_t kHeaderSizes[] = {kCoreHeader, 40, 52, 56, 64, 108, 124};
constexpr std::uint32_t kNoCompression = 0;
constexpr std::uint32_t kBitFields = 3;
constexpr std::uint32_t kAlphaBitFields = 6;

using Color = std::array<std::uint8_t, 3>;

struct Layout {
    int height = 0;
    int width = 0;
    bool top_down = false;
    std::uint32_t bits = 0;  // per pixel
    std::uint32_t compression = kNoCompression;
    std::size_t header = 0;                          // bytes of the second header
    std::size_t offset = 0;                          // of the pixels
    std::size_t stride = 0;                          // bytes from row to row
    std::array<std::size_t, 3> byte_of = {2, 1, 0};  // offsets of red, green and blue in a pixel of 24 or 32 bits
};

void require_size(std::span<const std::byte> bytes, std::size_t size) {
    if (bytes.size() < size) {
        throw_truncated("bmp", "BMP", bytes.size());
    }
}

[[noreturn]] void fail_unsupported(const Layout& layout, const std::string& more = "") {
    throw DataError({.path = {}, .offset = 28},
                    {.where = "bmp",
                     .expected = "a BMP of 1, 4, 8, 24 or 32 bits without compression",
                     .got = fmt::format("{} bits with compression {}{}", layout.bits, layout.compression, more)});
}

// Accepts masks that select one whole byte each, in any order.
void read_masks(std::span<const std::byte> bytes, Layout& layout) {
    require_size(bytes, kMasks + 12);
    for (std::size_t c = 0; c < 3; ++c) {
        const std::uint32_t mask = load_le(bytes, kMasks + 4 * c, 4);
        std::size_t byte = 0;
        while (byte < 4 && mask != 0xFFu << 8 * byte) {
            ++byte;
        }
        if (byte == 4) {
            fail_unsupported(layout, fmt::format(" and a mask of {:08x}", mask));
        }
        layout.byte_of[c] = byte;
    }
}

void check_format(std::span<const std::byte> bytes, Layout& layout) {
    const bool masked = layout.compression == kBitFields || layout.compression == kAlphaBitFields;
    if (masked && layout.bits == 32) {
        read_masks(bytes, layout);
        return;
    }
    constexpr std::uint32_t depths[] = {1, 4, 8, 24, 32};
    if (layout.compression != kNoCompression || std::ranges::find(depths, layout.bits) == std::end(depths)) {
        fail_unsupported(layout);
    }
}

Layout read_header(std::span<const std::byte> bytes) {
    require_size(bytes, kFileHeader + 4);
    Layout layout;
    layout.header = load_le(bytes, kFileHeader, 4);
    require_size(bytes, kFileHeader + layout.header);
    std::int64_t height = 0;
    std::int64_t width = 0;
    if (layout.header == kCoreHeader) {
        width = load_le(bytes, 18, 2);
        height = load_le(bytes, 20, 2);
        layout.bits = load_le(bytes, 24, 2);
    } else {
        width = static_cast<std::int32_t>(load_le(bytes, 18, 4));
        height = static_cast<std::int32_t>(load_le(bytes, 22, 4));
        layout.bits = load_le(bytes, 28, 2);
        layout.compression = load_le(bytes, 30, 4);
    }
    layout.top_down = height < 0;
    height = std::abs(height);
    check_image_size("bmp", height, width);
    layout.height = static_cast<int>(height);
    layout.width = static_cast<int>(width);
    check_format(bytes, layout);

    layout.offset = load_le(bytes, 10, 4);
    if (layout.offset < kFileHeader + layout.header) {
        throw DataError({.path = {}, .offset = 10}, {.where = "bmp",
                                                     .expected = "pixels after the headers",
                                                     .got = fmt::format("pixels at byte {}", layout.offset)});
    }
    const std::size_t row_bits = static_cast<std::size_t>(width) * layout.bits;  // at most 2^28 * 32
    layout.stride = (row_bits + 31) / 32 * 4;
    // Some writers omit the padding of the last row.
    const std::size_t pixels = layout.stride * static_cast<std::size_t>(height - 1) + (row_bits + 7) / 8;
    require_size(bytes, layout.offset + pixels);
    return layout;
}

// The palette's colours; it may have fewer than 2^bits.
class Palette {
  public:
    Palette() = default;
    Palette(std::span<const std::byte> bytes, const Layout& layout) {
        const bool core = layout.header == kCoreHeader;
        const std::size_t entry = core ? 3 : 4;
        const std::size_t begin = kFileHeader + layout.header;
        const std::size_t stated = core ? 0 : load_le(bytes, 46, 4);
        const std::size_t all = std::size_t{1} << layout.bits;
        count_ = std::min({stated == 0 ? all : stated, all, (layout.offset - begin) / entry});
        for (std::size_t i = 0; i < count_; ++i) {
            for (std::size_t c = 0; c < 3; ++c) {
                colors_[i][c] = std::to_integer<std::uint8_t>(bytes[begin + i * entry + 2 - c]);
            }
        }
    }

    const Color& at(std::size_t index, std::size_t offset) const {
        if (index >= count_) {
            throw DataError({.path = {}, .offset = static_cast<std::int64_t>(offset)},
                            {.where = "bmp",
                             .expected = fmt::format("a color index below {}", count_),
                             .got = fmt::to_string(index)});
        }
        return colors_[index];
    }

  private:
    std::array<Color, 256> colors_{};
    std::size_t count_ = 0;
};

// Expands the box's columns of the row at offset `row` to RGB.
void expand_indices(std::span<const std::byte> bytes, std::size_t row, const Layout& layout, const Palette& palette,
                    const Box& box, std::uint8_t* to) {
    for (int x = box.left; x < box.left + box.width; ++x) {
        const std::size_t bit = static_cast<std::size_t>(x) * layout.bits;
        const std::size_t shift = 8 - layout.bits - bit % 8;  // the first pixel is in the highest bits
        const std::size_t byte = std::to_integer<std::size_t>(bytes[row + bit / 8]);
        const Color& color = palette.at(byte >> shift & ((1u << layout.bits) - 1), row + bit / 8);
        to = std::copy(color.begin(), color.end(), to);
    }
}

void copy_colors(const std::byte* from, const Layout& layout, int width, std::uint8_t* to) {
    const std::size_t step = layout.bits / 8;
    const auto [red, green, blue] = layout.byte_of;
    for (int x = 0; x < width; ++x, from += step, to += 3) {
        to[0] = std::to_integer<std::uint8_t>(from[red]);
        to[1] = std::to_integer<std::uint8_t>(from[green]);
        to[2] = std::to_integer<std::uint8_t>(from[blue]);
    }
}

}  // namespace

bool is_bmp(std::span<const std::byte> bytes) {
    return bytes.size() >= kFileHeader + 4 && bytes[0] == std::byte{'B'} && bytes[1] == std::byte{'M'} &&
           std::ranges::find(kHeaderSizes, load_le(bytes, kFileHeader, 4)) != std::end(kHeaderSizes);
}

ImageInfo BmpDecoder::info(std::span<const std::byte> bytes) {
    const Layout layout = read_header(bytes);
    return {.codec = Codec::bmp, .height = layout.height, .width = layout.width};
}

void BmpDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const Layout layout = read_header(bytes);
    const Box box = checked_region(sink, layout.height, layout.width).box;
    const bool indexed = layout.bits <= 8;
    const Palette palette = indexed ? Palette(bytes, layout) : Palette();
    sink.start(box.height, box.width, 3);
    for (int y = 0; y < box.height; ++y) {
        const int stored = layout.top_down ? box.top + y : layout.height - 1 - box.top - y;
        const std::size_t row = layout.offset + static_cast<std::size_t>(stored) * layout.stride;
        if (indexed) {
            expand_indices(bytes, row, layout, palette, box, sink.row(y));
        } else {
            const std::size_t left = static_cast<std::size_t>(box.left) * (layout.bits / 8);
            copy_colors(bytes.data() + row + left, layout, box.width, sink.row(y));
        }
    }
    sink.finish();
}

}  // namespace stoker
