#include "stoker/codecs/heif_boxes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/file_boxes.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

using Bytes = std::span<const std::byte>;

// The numbers, from 1 on, of the properties of this item.
std::vector<std::uint64_t> properties_of(Bytes associations, std::uint64_t item) {
    Numbers numbers(associations);
    const std::uint64_t version = numbers.take(1);
    const bool wide = (numbers.take(3) & 1) != 0;
    std::vector<std::uint64_t> found;
    for (std::uint64_t entries = numbers.take(4); entries > 0 && !numbers.at_end(); --entries) {
        const bool wanted = numbers.take(version < 1 ? 2 : 4) == item;
        for (std::uint64_t count = numbers.take(1); count > 0; --count) {
            const std::uint64_t property = wide ? numbers.take(2) & 0x7FFF : numbers.take(1) & 0x7F;
            if (wanted) {
                found.push_back(property);
            }
        }
    }
    return found;
}

struct Properties {
    std::vector<FileBox> primary;  // of the primary image
    std::vector<FileBox> all;
};

Properties read_properties(Bytes bytes) {
    const Bytes meta = find_box(bytes, "meta"sv, 4);
    Numbers numbers(find_box(meta, "pitm"sv));
    const std::uint64_t version = numbers.take(4) >> 24;
    const std::uint64_t item = numbers.take(version == 0 ? 2 : 4);
    const Bytes boxes = find_box(meta, "iprp"sv);
    Properties found{.primary = {}, .all = boxes_in(find_box(boxes, "ipco"sv))};
    for (const std::uint64_t number : properties_of(find_box(boxes, "ipma"sv), item)) {
        if (number > 0 && number <= found.all.size()) {
            found.primary.push_back(found.all[number - 1]);
        }
    }
    return found;
}

// `angle`: quarters of a turn to the left. `mirror`: 0 exchanges top and bottom, 1 left and right, -1 neither.
int orientation_of(int angle, int mirror) {
    constexpr int kTurned[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    return kTurned[angle & 3][mirror + 1];
}

}  // namespace

std::optional<Codec> heif_codec(std::span<const std::byte> bytes) {
    constexpr std::size_t kHeader = 16;  // size, "ftyp", the main brand, its version
    if (bytes.size() < kHeader || text_of(bytes, 4, 4) != "ftyp"sv) {
        return std::nullopt;
    }
    const std::string_view main = text_of(bytes, 8, 4);
    if (main.starts_with("avi"sv)) {
        return Codec::avif;
    }
    if (main.starts_with("he"sv)) {
        return Codec::heic;
    }
    if (main != "mif1"sv) {
        return std::nullopt;
    }
    const std::size_t end = std::min<std::size_t>(load_be(bytes, 0, 4), bytes.size());
    for (std::size_t at = kHeader; at + 4 <= end; at += 4) {
        if (text_of(bytes, at, 4) == "avif"sv) {
            return Codec::avif;
        }
    }
    return Codec::heic;
}

bool is_heif_complete(std::span<const std::byte> bytes) {
    std::size_t at = 0;
    for (const FileBox& box : boxes_in(bytes)) {
        at = static_cast<std::size_t>(box.content.data() - bytes.data()) + box.content.size();
    }
    const Bytes rest = bytes.subspan(at);
    if (rest.empty()) {
        return true;
    }
    // Cameras append bytes that are not boxes.
    return rest.size() >= 8 && text_of(rest, 4, 4) != "meta"sv && text_of(rest, 4, 4) != "mdat"sv;
}

bool is_heif_sequence(std::span<const std::byte> bytes) {
    const std::string_view main = text_of(bytes, 8, 4);
    return main == "avis"sv || main == "hevc"sv || main == "hevx"sv;
}

std::optional<int> heif_chroma_format(std::span<const std::byte> bytes) {
    const Properties properties = read_properties(bytes);
    std::vector<FileBox> boxes = properties.primary;
    boxes.insert(boxes.end(), properties.all.begin(), properties.all.end());
    for (const FileBox& box : boxes) {
        constexpr std::size_t kAv1 = 2;
        constexpr std::size_t kHevc = 16;
        if (box.type == "av1C"sv && box.content.size() > kAv1) {
            const unsigned flags =
                std::to_integer<unsigned>(box.content[kAv1]) >> 2;  // no colour, half columns, half rows
            return (flags & 4) != 0 ? 0 : (flags & 1) != 0 ? 1 : (flags & 2) != 0 ? 2 : 3;
        }
        if (box.type == "hvcC"sv && box.content.size() > kHevc) {
            return std::to_integer<int>(box.content[kHevc]) & 3;
        }
    }
    return std::nullopt;
}

int heif_orientation(std::span<const std::byte> bytes) {
    int angle = 0;
    int mirror = -1;
    for (const FileBox& property : read_properties(bytes).primary) {
        if (property.content.empty()) {
            continue;
        }
        const auto value = std::to_integer<int>(property.content[0]);
        if (property.type == "irot"sv) {
            angle = value & 3;
        } else if (property.type == "imir"sv) {
            mirror = value & 1;
        }
    }
    return orientation_of(angle, mirror);
}

}  // namespace stoker
