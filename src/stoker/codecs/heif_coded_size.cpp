#include "stoker/codecs/heif_coded_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/file_boxes.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

using Bytes = std::span<const std::byte>;

// Bits from the highest of each byte on, 0 behind the end.
class Bits {
  public:
    explicit Bits(Bytes bytes) : bytes_(bytes) {}
    std::uint64_t take(int count) {
        std::uint64_t value = 0;
        for (; count > 0; --count, ++at_) {
            const bool set =
                at_ / 8 < bytes_.size() && (std::to_integer<unsigned>(bytes_[at_ / 8]) >> (7 - at_ % 8) & 1) != 0;
            value = value << 1 | (set ? 1 : 0);
        }
        return value;
    }
    void skip(std::size_t count) { at_ += count; }
    // Exp-Golomb: as many zeros as there are bits after a one.
    std::uint64_t take_golomb() {
        int zeros = 0;
        while (zeros < 32 && take(1) == 0) {
            ++zeros;
        }
        return (std::uint64_t{1} << zeros) - 1 + take(zeros);
    }

  private:
    Bytes bytes_;
    std::size_t at_ = 0;
};

// AV1's sequence header (5.5 of its specification).
std::uint64_t av1_pixels(Bytes header) {
    Bits bits(header);
    bits.skip(4);  // profile, still picture
    if (bits.take(1) != 0) {
        bits.skip(5);
    } else {
        std::uint64_t delay_bits = 0;
        if (bits.take(1) != 0) {  // timing
            bits.skip(64);
            if (bits.take(1) != 0) {
                bits.take_golomb();
            }
            if (bits.take(1) != 0) {
                delay_bits = bits.take(5) + 1;
                bits.skip(42);
            }
        }
        const bool display_delays = bits.take(1) != 0;
        for (std::uint64_t points = bits.take(5) + 1; points > 0; --points) {
            bits.skip(12);
            bits.skip(bits.take(5) > 7 ? 1 : 0);
            if (delay_bits > 0 && bits.take(1) != 0) {
                bits.skip(2 * delay_bits + 1);
            }
            if (display_delays && bits.take(1) != 0) {
                bits.skip(4);
            }
        }
    }
    const auto width_bits = static_cast<int>(bits.take(4) + 1);
    const auto height_bits = static_cast<int>(bits.take(4) + 1);
    const std::uint64_t width = bits.take(width_bits) + 1;
    return width * (bits.take(height_bits) + 1);
}

std::uint64_t largest_in_av1(Bytes units) {
    constexpr std::uint64_t kSequenceHeader = 1;
    std::uint64_t largest = 0;
    while (!units.empty()) {
        const unsigned flags = std::to_integer<unsigned>(units[0]);
        std::size_t at = (flags & 4) != 0 ? 2 : 1;
        std::uint64_t size = units.size() - std::min(at, units.size());
        if ((flags & 2) != 0) {
            size = 0;
            for (int shift = 0; shift < 56 && at < units.size(); shift += 7) {
                const unsigned byte = std::to_integer<unsigned>(units[at++]);
                size |= std::uint64_t{byte & 127} << shift;
                if (byte < 128) {
                    break;
                }
            }
        }
        if (at > units.size() || size > units.size() - at) {
            break;
        }
        if ((flags >> 3 & 15) == kSequenceHeader) {
            largest = std::max(largest, av1_pixels(units.subspan(at, size)));
        }
        units = units.subspan(at + size);
    }
    return largest;
}

// HEVC's sequence parameter set (7.3.2.2 of H.265), with the bytes that keep start codes out of it.
std::uint64_t hevc_pixels(Bytes unit) {
    std::vector<std::byte> plain;
    for (std::size_t i = 0; i < unit.size(); ++i) {
        const bool inserted =
            i >= 2 && unit[i] == std::byte{3} && unit[i - 1] == std::byte{0} && unit[i - 2] == std::byte{0};
        if (!inserted) {
            plain.push_back(unit[i]);
        }
    }
    Bits bits(plain);
    bits.skip(16 + 4);
    const std::uint64_t layers = bits.take(3);
    bits.skip(1 + 88 + 8);
    std::size_t skipped = 0;
    for (std::uint64_t i = 0; i < layers; ++i) {
        skipped += bits.take(1) != 0 ? 88 : 0;
        skipped += bits.take(1) != 0 ? 8 : 0;
    }
    bits.skip((layers > 0 ? 2 * (8 - layers) : 0) + skipped);
    bits.take_golomb();
    if (bits.take_golomb() == 3) {
        bits.skip(1);
    }
    constexpr std::uint64_t kMost = 1U << 31;  // so that the product is exact
    const std::uint64_t width = std::min(bits.take_golomb(), kMost);
    return width * std::min(bits.take_golomb(), kMost);
}

constexpr unsigned kParameterSet = 33;

// Units after their sizes of 4 bytes.
std::uint64_t largest_in_hevc(Bytes units) {
    std::uint64_t largest = 0;
    while (units.size() > 4) {
        const std::size_t size = load_be(units, 0, 4);
        if (size > units.size() - 4) {
            break;
        }
        const Bytes unit = units.subspan(4, size);
        if (!unit.empty() && (std::to_integer<unsigned>(unit[0]) >> 1 & 63) == kParameterSet) {
            largest = std::max(largest, hevc_pixels(unit));
        }
        units = units.subspan(4 + size);
    }
    return largest;
}

// The parameter sets of a decoder configuration.
std::uint64_t largest_in_configuration(Bytes content) {
    constexpr std::size_t kFixed = 22;
    if (content.size() < kFixed) {
        return 0;
    }
    Bytes rest = content.subspan(kFixed);
    Numbers numbers(rest);
    std::uint64_t largest = 0;
    std::size_t at = 1;
    for (std::uint64_t arrays = numbers.take(1); arrays > 0 && !numbers.at_end(); --arrays) {
        numbers.take(1);
        std::uint64_t units = numbers.take(2);
        at += 3;
        for (; units > 0 && !numbers.at_end(); --units) {
            const std::size_t size = numbers.take(2);
            at += 2;
            if (at > rest.size() || size > rest.size() - at) {
                return largest;
            }
            const Bytes unit = rest.subspan(at, size);
            if (!unit.empty() && (std::to_integer<unsigned>(unit[0]) >> 1 & 63) == kParameterSet) {
                largest = std::max(largest, hevc_pixels(unit));
            }
            at += size;
            numbers = Numbers(rest.subspan(at));
        }
    }
    return largest;
}

std::uint64_t pixels_of(const HeifItem& item) {
    const std::vector<std::byte> content = item.joined_content();
    std::uint64_t largest = item.type == "av01"sv ? largest_in_av1(content) : largest_in_hevc(content);
    for (const FileBox& box : item.properties) {
        if (box.type == "hvcC"sv) {
            largest = std::max(largest, largest_in_configuration(box.content));
        } else if (box.type == "av1C"sv && box.content.size() > 4) {
            largest = std::max(largest, largest_in_av1(box.content.subspan(4)));
        }
    }
    return largest;
}

class SizeReader {
  public:
    explicit SizeReader(const HeifItems& items) : items_(items) {}

    CodedSizes read() {
        decoded(items_.primary, 0);
        return sizes_;
    }

  private:
    // The pixels that are decoded for this item. A tile that a grid has again is decoded again.
    std::uint64_t decoded(std::uint64_t number, int depth) {
        constexpr int kDeepest = 8;  // an alpha channel of an alpha channel of ...
        if (const auto known = decoded_.find(number); known != decoded_.end()) {
            return known->second;
        }
        const auto found = items_.all.find(number);
        if (found == items_.all.end() || depth > kDeepest) {
            refuse_heif(items_.codec, "auxiliary images that are missing or too deep");
        }
        const HeifItem& item = found->second;
        std::uint64_t pixels = own_pixels(item);
        for (const std::uint64_t tile : item.coded() ? std::vector<std::uint64_t>() : item.tiles) {
            pixels += decoded(tile, depth + 1);
            check_total(pixels);
        }
        for (const std::uint64_t auxiliary : item.auxiliary) {
            pixels += decoded(auxiliary, depth + 1);
            check_total(pixels);
        }
        decoded_[number] = pixels;
        return pixels;
    }

    std::uint64_t own_pixels(const HeifItem& item) {
        constexpr auto kMost = static_cast<std::uint64_t>(kMaxPixels);
        const bool grid = item.type == "grid"sv;
        if (!grid && !item.coded()) {
            refuse_heif(items_.codec, fmt::format("an auxiliary image of the type '{}'", item.type));
        }
        const std::uint64_t pixels = grid ? grid_canvas(items_.codec, item).pixels() : pixels_of(item);
        if (pixels == 0) {
            refuse_heif(items_.codec, "an image without the header that states its size");
        }
        if (pixels > kMost) {
            refuse_heif(items_.codec, fmt::format("pictures of more than {} pixels", kMost));
        }
        if (grid) {
            sizes_.canvases += pixels;
            check_total(sizes_.canvases);
        } else {
            sizes_.largest = std::max(sizes_.largest, pixels);
        }
        return pixels;
    }

    void check_total(std::uint64_t pixels) const {
        constexpr auto kMost = static_cast<std::uint64_t>(4 * kMaxPixels);
        if (pixels > kMost) {
            refuse_heif(items_.codec, fmt::format("images of more than {} pixels together", kMost));
        }
    }

    const HeifItems& items_;
    CodedSizes sizes_;
    std::map<std::uint64_t, std::uint64_t> decoded_;  // by the items' numbers
};

}  // namespace

CodedSizes coded_sizes(const HeifItems& items) {
    return SizeReader(items).read();
}

}  // namespace stoker
