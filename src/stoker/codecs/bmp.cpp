// Layout: a file header of 14 bytes with the offset of the pixels at byte 10; a second header that begins with its
// own size, 12 or 64 bytes (OS/2) or another of at least 40 (Windows); the palette or the colour masks; rows padded to
// 4 bytes, or run-length encoded rows (bmp_rle.cpp).
#include "stoker/codecs/decoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::size_t kMasks = 54;  // offset of the colour masks of compression 3 and 6, for every header size
constexpr std::uint32_t kCoreHeader = 12;
constexpr std::uint32_t kInfoHeader = 40;  // masks follow this header; larger headers contain them
constexpr std::uint32_t kHeaderSizes[] = {kCoreHeader, kInfoHeader, 52, 56, 64, 108, 124};

enum Compression : std::uint32_t { kNone = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

using Color = std::array<std::uint8_t, 3>;

// One colour of a pixel of 16, 24 or 32 bits: the level of value (pixel >> shift) & limit.
struct Channel {
    std::uint32_t shift = 0;
    std::uint32_t limit = 255;
    std::array<std::uint8_t, 256> levels{};
};

struct Layout {
    int height = 0;
    int width = 0;
    bool top_down = false;
    std::uint32_t bits = 0;  // per pixel
    std::uint32_t compression = kNone;
    std::array<std::uint32_t, 3> masks = {0xFF0000, 0xFF00, 0xFF};  // of red, green and blue
    std::size_t colors = 0;                                         // of the palette, as stored
    std::size_t palette = 0;                                        // its offset
    std::size_t offset = 0;                                         // of the pixels
    std::size_t stride = 0;                                         // bytes from row to row

    bool indexed() const { return bits <= 8; }
    bool run_length() const { return compression == kRle8 || compression == kRle4; }
    std::size_t palette_entry() const { return palette == kFileHeader + kCoreHeader ? 3 : 4; }
};

void require_size(std::span<const std::byte> bytes, std::size_t size) {
    if (bytes.size() < size) {
        throw_truncated("bmp", "BMP", bytes.size());
    }
}

[[noreturn]] void fail_unsupported(const Layout& layout, const std::string& more = "") {
    throw DataError(
        {.path = {}, .offset = 28},
        {.where = "bmp",
         .expected = "a BMP of 1, 4, 8, 16, 24 or 32 bits, uncompressed, run-length encoded or with bit fields",
         .got = fmt::format("{} bits with compression {}{}", layout.bits, layout.compression, more)});
}

// Each mask must select 1 to 8 adjacent bits of a pixel.
void check_mask(const Layout& layout, std::uint32_t mask) {
    const bool adjacent = mask != 0 && std::has_single_bit((mask >> std::countr_zero(mask)) + std::uint64_t{1});
    if (!adjacent || std::popcount(mask) > 8 || (std::uint64_t{mask} >> layout.bits) != 0) {
        fail_unsupported(layout, fmt::format(" and a mask of {:08x}", mask));
    }
}

// Sets the masks of a pixel of 16, 24 or 32 bits.
void read_masks(std::span<const std::byte> bytes, Layout& layout) {
    if (layout.compression == kNone) {
        if (layout.bits == 16) {
            layout.masks = {0x7C00, 0x3E0, 0x1F};
        }
        return;
    }
    require_size(bytes, kMasks + 12);
    std::array<std::uint32_t, 3> masks{};
    for (std::size_t c = 0; c < 3; ++c) {
        masks[c] = load_le(bytes, kMasks + 4 * c, 4);
    }
    if (layout.bits == 32 && masks == std::array<std::uint32_t, 3>{}) {
        return;  // no masks: the order of uncompressed pixels
    }
    for (const std::uint32_t mask : masks) {
        check_mask(layout, mask);
    }
    layout.masks = masks;
}

void check_format(const Layout& layout) {
    switch (layout.compression) {
        case kNone:
        case kBitFields:
        case kAlphaBitFields: {
            constexpr std::uint32_t depths[] = {1, 4, 8, 16, 24, 32};
            const bool known = std::ranges::find(depths, layout.bits) != std::end(depths);
            if (known && (layout.compression == kNone || !layout.indexed())) {
                return;
            }
            break;
        }
        case kRle8:
        case kRle4:
            if (layout.bits == (layout.compression == kRle8 ? 8 : 4)) {
                return;
            }
            break;
        default:
            break;
    }
    fail_unsupported(layout);
}

// Finds the palette, the masks and the pixels behind a header of `header` bytes.
void read_positions(std::span<const std::byte> bytes, std::size_t header, Layout& layout) {
    layout.offset = load_le(bytes, 10, 4);
    layout.palette = kFileHeader + header;
    std::size_t end = layout.palette;  // of headers and palette
    if (layout.indexed()) {
        const std::uint32_t stated = header == kCoreHeader ? 0 : load_le(bytes, 46, 4);
        layout.colors = stated == 0 ? std::size_t{1} << layout.bits : stated;
        end += layout.colors * layout.palette_entry();
    } else {
        read_masks(bytes, layout);
        end += layout.compression != kNone && header == kInfoHeader ? 12 : 0;
    }
    // Pillow skips the palette if the stated offset includes none, and takes no offset for the end of the headers.
    if (layout.offset == 0 || (layout.indexed() && layout.offset == layout.palette)) {
        layout.offset = end;
    }
    if (layout.offset < layout.palette) {
        throw DataError({.path = {}, .offset = 10}, {.where = "bmp",
                                                     .expected = "pixels after the headers",
                                                     .got = fmt::format("pixels at byte {}", layout.offset)});
    }
}

Layout read_header(std::span<const std::byte> bytes) {
    require_size(bytes, kFileHeader + 4);
    Layout layout;
    const std::size_t header = load_le(bytes, kFileHeader, 4);
    require_size(bytes, kFileHeader + header);
    std::int64_t height = 0;
    std::int64_t width = 0;
    if (header == kCoreHeader) {
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
    check_format(layout);
    read_positions(bytes, header, layout);

    const std::size_t row_bits = static_cast<std::size_t>(width) * layout.bits;  // at most 2^28 * 32
    layout.stride = (row_bits + 31) / 32 * 4;
    // Some writers omit the padding of the last row.
    const std::size_t pixels = layout.stride * static_cast<std::size_t>(height - 1) + (row_bits + 7) / 8;
    require_size(bytes, layout.offset + (layout.run_length() ? 2 : pixels));
    return layout;
}

// The palette's colours; it may have fewer than 2^bits, and the others are black, as in Pillow.
class Palette {
  public:
    Palette() = default;
    Palette(std::span<const std::byte> bytes, const Layout& layout) {
        const std::size_t entry = layout.palette_entry();
        const std::size_t stored = (layout.offset - layout.palette) / entry;
        const std::size_t count = std::min({layout.colors, std::size_t{1} << layout.bits, stored});
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t c = 0; c < 3; ++c) {
                colors_[i][c] = std::to_integer<std::uint8_t>(bytes[layout.palette + i * entry + 2 - c]);
            }
        }
    }

    const Color& at(std::size_t index) const { return colors_[index]; }

  private:
    std::array<Color, 256> colors_{};
};

// Expands the box's columns of the row at offset `row` to RGB.
void expand_indices(std::span<const std::byte> bytes, std::size_t row, const Layout& layout, const Palette& palette,
                    const Box& box, std::uint8_t* to) {
    for (int x = box.left; x < box.left + box.width; ++x) {
        const std::size_t bit = static_cast<std::size_t>(x) * layout.bits;
        const std::size_t shift = 8 - layout.bits - bit % 8;  // the first pixel is in the highest bits
        const std::size_t byte = std::to_integer<std::size_t>(bytes[row + bit / 8]);
        const Color& color = palette.at(byte >> shift & ((1u << layout.bits) - 1));
        to = std::copy(color.begin(), color.end(), to);
    }
}

// Three bytes a pixel in the order blue, green, red, then nothing or a byte that is dropped.
void copy_bytes(const std::byte* from, std::size_t step, int width, std::uint8_t* to) {
    for (int x = 0; x < width; ++x, from += step, to += 3) {
        to[0] = std::to_integer<std::uint8_t>(from[2]);
        to[1] = std::to_integer<std::uint8_t>(from[1]);
        to[2] = std::to_integer<std::uint8_t>(from[0]);
    }
}

// Pixels whose colours are selected by masks.
class Channels {
  public:
    explicit Channels(const Layout& layout) : step_(layout.bits / 8) {
        for (std::size_t c = 0; c < 3; ++c) {
            Channel& channel = channels_[c];
            channel.shift = static_cast<std::uint32_t>(std::countr_zero(layout.masks[c]));
            channel.limit = layout.masks[c] >> channel.shift;
            for (std::uint32_t value = 0; value <= channel.limit; ++value) {
                channel.levels[value] = static_cast<std::uint8_t>(value * 255 / channel.limit);  // as Pillow rounds
            }
        }
    }

    void copy(std::span<const std::byte> bytes, std::size_t from, int width, std::uint8_t* to) const {
        for (int x = 0; x < width; ++x, from += step_) {
            const std::uint32_t pixel = load_le(bytes, from, step_);
            for (const Channel& channel : channels_) {
                *to++ = channel.levels[pixel >> channel.shift & channel.limit];
            }
        }
    }

  private:
    std::size_t step_;
    std::array<Channel, 3> channels_;
};

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
    const auto stored_row = [&](int y) {
        return static_cast<std::size_t>(layout.top_down ? box.top + y : layout.height - 1 - box.top - y);
    };
    const auto left = static_cast<std::size_t>(box.left);
    if (layout.run_length()) {
        const Palette palette(bytes, layout);
        decode_bmp_runs(bytes, layout.offset, layout.compression == kRle4, layout.height, layout.width, indices_);
        sink.start(box.height, box.width, 3);
        for (int y = 0; y < box.height; ++y) {
            const std::byte* from = indices_.data() + stored_row(y) * static_cast<std::size_t>(layout.width) + left;
            std::uint8_t* to = sink.row(y);
            for (int x = 0; x < box.width; ++x) {
                const Color& color = palette.at(std::to_integer<std::size_t>(from[x]));
                to = std::copy(color.begin(), color.end(), to);
            }
        }
        sink.finish();
        return;
    }
    const Palette palette = layout.indexed() ? Palette(bytes, layout) : Palette();
    const bool whole_bytes = layout.bits >= 24 && layout.masks == Layout{}.masks;
    const std::optional<Channels> channels =
        layout.indexed() || whole_bytes ? std::nullopt : std::optional<Channels>(layout);
    sink.start(box.height, box.width, 3);
    for (int y = 0; y < box.height; ++y) {
        const std::size_t row = layout.offset + stored_row(y) * layout.stride;
        const std::size_t first = row + left * (layout.bits / 8);
        if (layout.indexed()) {
            expand_indices(bytes, row, layout, palette, box, sink.row(y));
        } else if (whole_bytes) {
            copy_bytes(bytes.data() + first, layout.bits / 8, box.width, sink.row(y));
        } else {
            channels->copy(bytes, first, box.width, sink.row(y));
        }
    }
    sink.finish();
}

}  // namespace stoker
