#include "stoker/codecs/heif_coded_size.h"

#include <algorithm>
#include <limits>
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
    const std::uint64_t width = bits.take_golomb();
    return width * bits.take_golomb();
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

// The types of the items, by their numbers.
std::map<std::uint64_t, std::string_view> item_types(Bytes meta) {
    std::map<std::uint64_t, std::string_view> types;
    const Bytes all = find_box(meta, "iinf"sv);
    const std::size_t header = all.empty() || all[0] == std::byte{0} ? 6 : 8;
    for (const FileBox& entry : boxes_in(all.subspan(std::min(header, all.size())))) {
        const std::size_t number = !entry.content.empty() && entry.content[0] == std::byte{2} ? 2 : 4;
        if (entry.type == "infe"sv && entry.content.size() >= 4 + number + 2 + 4) {
            types[Numbers(entry.content.subspan(4)).take(number)] = text_of(entry.content, 4 + number + 2, 4);
        }
    }
    return types;
}

// Calls take(item, bytes) with the content of each item. False if the items are more than twice the file: one that
// refers to its bytes again and again.
template <typename Take>
bool for_each_item(Bytes file, Bytes meta, const Take& take) {
    Numbers numbers(find_box(meta, "iloc"sv));
    const std::uint64_t version = numbers.take(4) >> 24;
    const std::uint64_t sizes = numbers.take(2);
    const auto nibble = [&](int index) { return std::min<std::size_t>(sizes >> (12 - 4 * index) & 15, 8); };
    const Bytes inside = find_box(meta, "idat"sv);
    std::vector<std::byte> content;
    std::size_t room = 2 * file.size();
    for (std::uint64_t items = numbers.take(version < 2 ? 2 : 4); items > 0 && !numbers.at_end(); --items) {
        const std::uint64_t item = numbers.take(version < 2 ? 2 : 4);
        const Bytes& source = version > 0 && (numbers.take(2) & 15) == 1 ? inside : file;
        numbers.take(2);
        const std::uint64_t base = numbers.take(nibble(2));
        content.clear();
        for (std::uint64_t extents = numbers.take(2); extents > 0 && !numbers.at_end(); --extents) {
            numbers.take(version > 0 ? nibble(3) : 0);
            const std::uint64_t offset = base + numbers.take(nibble(0));
            std::uint64_t length = numbers.take(nibble(1));
            if (offset > source.size()) {
                break;
            }
            length = length == 0 ? source.size() - offset : length;
            if (length > source.size() - offset) {
                break;
            }
            if (length > room) {
                return false;
            }
            room -= length;
            const Bytes part = source.subspan(offset, length);
            content.insert(content.end(), part.begin(), part.end());
        }
        take(item, content);
    }
    return true;
}

}  // namespace

std::uint64_t largest_coded_picture(std::span<const std::byte> bytes) {
    const Bytes meta = find_box(bytes, "meta"sv, 4);
    const std::map<std::uint64_t, std::string_view> types = item_types(meta);
    std::uint64_t largest = 0;
    const bool bounded = for_each_item(bytes, meta, [&](std::uint64_t item, Bytes content) {
        const auto type = types.find(item);
        if (type != types.end() && type->second == "av01"sv) {
            largest = std::max(largest, largest_in_av1(content));
        } else if (type != types.end() && type->second == "hvc1"sv) {
            largest = std::max(largest, largest_in_hevc(content));
        }
    });
    if (!bounded) {
        return std::numeric_limits<std::uint64_t>::max();
    }
    for (const FileBox& box : boxes_in(find_box(find_box(meta, "iprp"sv), "ipco"sv))) {
        if (box.type == "hvcC"sv) {
            largest = std::max(largest, largest_in_configuration(box.content));
        } else if (box.type == "av1C"sv && box.content.size() > 4) {
            largest = std::max(largest, largest_in_av1(box.content.subspan(4)));
        }
    }
    return largest;
}

}  // namespace stoker
