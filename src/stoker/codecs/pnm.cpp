// Layout: "P5" or "P6"; width, height and the maximum sample value as decimal numbers, separated by white space and
// comments; one white space; the rows. Samples become v * 255 / maximum, rounded as in Pillow.
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
    std::size_t channels = 3;   // stored: 1 or 3
    std::uint32_t largest = 0;  // the maximum sample value
    std::size_t sample = 1;     // bytes of a sample: 1, or 2 (big-endian) if `largest` exceeds 255
    std::size_t offset = 0;     // of the rows
};

bool is_space(std::byte byte) {
    const auto c = std::to_integer<char>(byte);
    return c == ' ' || (c >= '\t' && c <= '\r');
}

class HeaderReader {
  public:
    explicit HeaderReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    // Reads the next number after white space and comments (# to the end of the line).
    std::uint32_t number(const char* expected) {
        while (is_space(peek()) || peek() == std::byte{'#'}) {
            if (peek() == std::byte{'#'}) {
                skip_line();
            } else {
                ++position_;
            }
        }
        std::uint32_t value = 0;
        int digits = 0;
        for (; peek() >= std::byte{'0'} && peek() <= std::byte{'9'}; ++position_, ++digits) {
            value = value * 10 + (std::to_integer<std::uint32_t>(peek()) - '0');
            if (digits == 9) {
                fail(expected, "a longer number");
            }
        }
        if (digits == 0) {
            fail(expected, fmt::format("byte {:02x}", std::to_integer<unsigned>(peek())));
        }
        return value;
    }

    // Reads the white space before the rows and returns their offset.
    std::size_t end() {
        if (!is_space(peek())) {
            fail("one white space before the pixels", fmt::format("byte {:02x}", std::to_integer<unsigned>(peek())));
        }
        return position_ + 1;
    }

  private:
    std::byte peek() const {
        if (position_ >= bytes_.size()) {
            throw_truncated("pnm", "PPM or PGM", bytes_.size());
        }
        return bytes_[position_];
    }
    void skip_line() {
        while (peek() != std::byte{'\n'} && peek() != std::byte{'\r'}) {
            ++position_;
        }
    }
    [[noreturn]] void fail(const char* expected, std::string got) const {
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(position_)},
                        {.where = "pnm", .expected = expected, .got = std::move(got)});
    }

    std::span<const std::byte> bytes_;
    std::size_t position_ = 2;
};

Layout read_header(std::span<const std::byte> bytes) {
    HeaderReader reader(bytes);
    const std::int64_t width = reader.number("a width of at most 9 digits");
    const std::int64_t height = reader.number("a height of at most 9 digits");
    check_image_size("pnm", height, width);
    Layout layout{.height = static_cast<int>(height), .width = static_cast<int>(width)};
    layout.channels = bytes[1] == std::byte{'6'} ? 3 : 1;
    layout.largest = reader.number("a largest sample of at most 9 digits");
    if (layout.largest < 1 || layout.largest > 65535) {
        throw DataError(
            {},
            {.where = "pnm", .expected = "a largest sample of 1 to 65535", .got = fmt::format("{}", layout.largest)});
    }
    layout.sample = layout.largest > 255 ? 2 : 1;
    layout.offset = reader.end();
    const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    if (bytes.size() - layout.offset < pixels * layout.channels * layout.sample) {
        throw_truncated("pnm", "PPM or PGM", bytes.size());
    }
    return layout;
}

// Pillow's formula: floating point, ties to even.
std::uint8_t to_level(std::uint32_t value, std::uint32_t largest) {
    const double level = static_cast<double>(value) / largest * 255;
    return static_cast<std::uint8_t>(std::min(std::nearbyint(level), 255.0));
}

void expand(std::span<const std::byte> from, const Layout& layout, int width, std::uint8_t* to) {
    const std::size_t pixel = layout.channels * layout.sample;
    for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
            const std::size_t at = x * pixel + (layout.channels == 3 ? c * layout.sample : 0);
            *to++ = layout.largest == 255 ? std::to_integer<std::uint8_t>(from[at])
                                          : to_level(load_be(from, at, layout.sample), layout.largest);
        }
    }
}

}  // namespace

bool is_pnm(std::span<const std::byte> bytes) {
    return bytes.size() >= 3 && bytes[0] == std::byte{'P'} &&
           (bytes[1] == std::byte{'5'} || bytes[1] == std::byte{'6'}) &&
           (is_space(bytes[2]) || bytes[2] == std::byte{'#'});
}

ImageInfo PnmDecoder::info(std::span<const std::byte> bytes) {
    const Layout layout = read_header(bytes);
    return {.codec = Codec::pnm, .height = layout.height, .width = layout.width};
}

void PnmDecoder::decode(std::span<const std::byte> bytes, RowSink& sink) {
    const Layout layout = read_header(bytes);
    const Box box = checked_region(sink, layout.height, layout.width).box;
    const std::size_t pixel = layout.channels * layout.sample;
    sink.start(box.height, box.width, 3);
    for (int y = 0; y < box.height; ++y) {
        const auto first = static_cast<std::size_t>(box.top + y) * static_cast<std::size_t>(layout.width) +
                           static_cast<std::size_t>(box.left);
        expand(bytes.subspan(layout.offset + first * pixel), layout, box.width, sink.row(y));
    }
    sink.finish();
}

}  // namespace stoker
