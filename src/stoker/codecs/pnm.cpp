// Layout: "P1" to "P6"; width, height and, except for bitmaps (P1, P4), the maximum sample value as decimal numbers,
// separated by white space and comments; one white space; the rows, binary (P4 to P6) or as more such numbers. Samples
// become v * 255 / maximum, rounded as in Pillow; a 1 of a bitmap is black.
#include "stoker/codecs/decoders.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

struct Layout {
    int height = 0;
    int width = 0;
    bool text = false;
    bool bitmap = false;
    std::size_t channels = 3;   // stored: 1 or 3
    std::uint32_t largest = 1;  // the maximum sample value
    std::size_t sample = 1;     // binary: bytes of a sample: 1, or 2 (big-endian) if `largest` exceeds 255
    std::size_t offset = 0;     // of the rows
    std::size_t stride = 0;     // binary: bytes from row to row
};

bool is_space(std::byte byte) {
    const auto c = std::to_integer<char>(byte);
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Reads decimal numbers. A comment, # to the end of its line, is skipped everywhere, also within a number.
class NumberReader {
  public:
    NumberReader(std::span<const std::byte> bytes, std::size_t position) : bytes_(bytes), position_(position) {}

    // The next number after white space. `last`: the file may end behind it.
    std::uint32_t number(const char* expected, bool last = false) {
        skip_space();
        std::uint32_t value = 0;
        int digits = 0;
        for (; !(last && at_end()) && is_digit(peek()); ++digits) {
            value = value * 10 + (std::to_integer<std::uint32_t>(peek()) - '0');
            ++position_;
            skip_comments(last);
            if (digits == 9) {
                fail(expected, "a longer number");
            }
        }
        if (digits == 0) {
            fail(expected, fmt::format("byte {:02x}", std::to_integer<unsigned>(peek())));
        }
        return value;
    }

    // The next number of the rows, which white space or the end of the file ends.
    std::uint32_t sample(std::uint32_t largest) {
        const std::uint32_t value = number("a sample of at most 9 digits", true);
        if (!at_end() && !is_space(peek())) {
            fail("a sample of digits", fmt::format("byte {:02x}", std::to_integer<unsigned>(peek())));
        }
        if (value > largest) {
            fail(fmt::format("a sample of at most {}", largest), fmt::to_string(value));
        }
        return value;
    }

    // The next 0 or 1 of a bitmap; white space between them may be absent.
    std::uint32_t bit() {
        skip_space();
        const std::byte byte = peek();
        if (byte != std::byte{'0'} && byte != std::byte{'1'}) {
            fail("a 0 or 1", fmt::format("byte {:02x}", std::to_integer<unsigned>(byte)));
        }
        ++position_;
        return byte == std::byte{'1'} ? 1 : 0;
    }

    // Reads the white space before the rows and returns their offset.
    std::size_t end() {
        if (!is_space(peek())) {
            fail("one white space before the pixels", fmt::format("byte {:02x}", std::to_integer<unsigned>(peek())));
        }
        return position_ + 1;
    }

  private:
    static bool is_digit(std::byte byte) { return byte >= std::byte{'0'} && byte <= std::byte{'9'}; }
    bool at_end() const { return position_ >= bytes_.size(); }
    std::byte peek() const {
        if (at_end()) {
            throw_truncated("pnm", "PNM", bytes_.size());
        }
        return bytes_[position_];
    }
    void skip_space() {
        while (is_space(peek()) || peek() == std::byte{'#'}) {
            if (peek() == std::byte{'#'}) {
                skip_comments(false);
            } else {
                ++position_;
            }
        }
    }
    void skip_comments(bool last) {
        while (!(last && at_end()) && peek() == std::byte{'#'}) {
            while (!(last && at_end()) && peek() != std::byte{'\n'} && peek() != std::byte{'\r'}) {
                ++position_;
            }
            ++position_;
        }
    }
    [[noreturn]] void fail(std::string expected, std::string got) const {
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(position_)},
                        {.where = "pnm", .expected = std::move(expected), .got = std::move(got)});
    }

    std::span<const std::byte> bytes_;
    std::size_t position_;
};

std::uint32_t read_largest(NumberReader& reader) {
    const std::uint32_t largest = reader.number("a largest sample of at most 9 digits");
    if (largest < 1 || largest > 65535) {
        throw DataError(
            {}, {.where = "pnm", .expected = "a largest sample of 1 to 65535", .got = fmt::format("{}", largest)});
    }
    return largest;
}

// Bytes that the rows have at least.
std::size_t least_bytes(const Layout& layout) {
    const auto height = static_cast<std::size_t>(layout.height);
    if (!layout.text) {
        return height * layout.stride;
    }
    const std::size_t samples = height * static_cast<std::size_t>(layout.width) * layout.channels;
    return layout.bitmap ? samples : 2 * samples - 1;  // digits with white space between them
}

Layout read_header(std::span<const std::byte> bytes) {
    NumberReader reader(bytes, 2);
    const std::int64_t width = reader.number("a width of at most 9 digits");
    const std::int64_t height = reader.number("a height of at most 9 digits");
    check_image_size("pnm", height, width);
    const auto kind = std::to_integer<int>(bytes[1]) - '0';  // 1 to 6
    Layout layout{.height = static_cast<int>(height),
                  .width = static_cast<int>(width),
                  .text = kind <= 3,
                  .bitmap = kind % 3 == 1};
    layout.channels = kind % 3 == 0 ? 3 : 1;
    layout.largest = layout.bitmap ? 1 : read_largest(reader);
    layout.sample = layout.largest > 255 ? 2 : 1;
    layout.offset = reader.end();
    const auto columns = static_cast<std::size_t>(width);
    layout.stride = layout.bitmap ? (columns + 7) / 8 : columns * layout.channels * layout.sample;
    if (bytes.size() - layout.offset < least_bytes(layout)) {
        throw_truncated("pnm", "PNM", bytes.size());
    }
    return layout;
}

// Pillow's formula: floating point, ties to even.
std::uint8_t to_level(std::uint32_t value, std::uint32_t largest) {
    const double level = static_cast<double>(value) / largest * 255;
    return static_cast<std::uint8_t>(std::min(std::nearbyint(level), 255.0));
}

// Writes one pixel of one or three samples: `level(c)` is the level of sample c.
template <typename Level>
std::uint8_t* put_pixel(std::uint8_t* to, std::size_t channels, Level level) {
    to[0] = level(0);
    to[1] = channels == 3 ? level(1) : to[0];
    to[2] = channels == 3 ? level(2) : to[0];
    return to + 3;
}

// Expands `width` pixels of a binary row.
void expand(std::span<const std::byte> from, const Layout& layout, int width, std::uint8_t* to) {
    const std::size_t pixel = layout.channels * layout.sample;
    for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
        to = put_pixel(to, layout.channels, [&](std::size_t c) {
            const std::size_t at = x * pixel + c * layout.sample;
            return layout.largest == 255 ? std::to_integer<std::uint8_t>(from[at])
                                         : to_level(load_be(from, at, layout.sample), layout.largest);
        });
    }
}

// Expands the columns [left, left + width) of a bitmap's row; the first pixel is in the highest bit.
void expand_bits(std::span<const std::byte> row, int left, int width, std::uint8_t* to) {
    for (int x = left; x < left + width; ++x) {
        const std::byte bit = row[static_cast<std::size_t>(x / 8)] >> (7 - x % 8) & std::byte{1};
        to = put_pixel(to, 1, [&](std::size_t) { return bit == std::byte{0} ? std::uint8_t{255} : std::uint8_t{0}; });
    }
}

// Reads the numbers of whole rows.
void read_text(std::span<const std::byte> bytes, const Layout& layout, RegionRows& rows) {
    NumberReader reader(bytes, layout.offset);
    const auto level = [&](std::size_t) -> std::uint8_t {
        if (layout.bitmap) {
            return reader.bit() == 0 ? 255 : 0;
        }
        return to_level(reader.sample(layout.largest), layout.largest);
    };
    for (int y = 0; y < rows.end(); ++y) {
        std::uint8_t* to = rows.begin(y);
        for (int x = 0; x < layout.width; ++x) {
            to = put_pixel(to, layout.channels, level);
        }
        rows.complete(y);
    }
}

}  // namespace

bool is_pnm(std::span<const std::byte> bytes) {
    return bytes.size() >= 3 && bytes[0] == std::byte{'P'} && bytes[1] >= std::byte{'1'} &&
           bytes[1] <= std::byte{'6'} && (is_space(bytes[2]) || bytes[2] == std::byte{'#'});
}

ImageInfo PnmDecoder::info(std::span<const std::byte> bytes) {
    const Layout layout = read_header(bytes);
    return {.codec = Codec::pnm, .height = layout.height, .width = layout.width, .bits = layout.largest > 255 ? 16 : 8};
}

void PnmDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const Layout layout = read_header(bytes);
    const Box box = checked_region(sink, layout.height, layout.width).box;
    if (layout.text) {
        RegionRows rows(sink, box, layout.height, layout.width, row_);
        read_text(bytes, layout, rows);
        sink.finish();
        return;
    }
    sink.start(box.height, box.width, 3);
    for (int y = 0; y < box.height; ++y) {
        const auto row = bytes.subspan(layout.offset + static_cast<std::size_t>(box.top + y) * layout.stride);
        if (layout.bitmap) {
            expand_bits(row, box.left, box.width, sink.row(y));
        } else {
            const std::size_t pixel = layout.channels * layout.sample;
            expand(row.subspan(static_cast<std::size_t>(box.left) * pixel), layout, box.width, sink.row(y));
        }
    }
    sink.finish();
}

}  // namespace stoker
