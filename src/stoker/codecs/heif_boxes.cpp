#include "stoker/codecs/heif_boxes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "stoker/codecs/byte_order.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes, std::size_t at, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes.data()) + at, size};
}

struct FileBox {
    std::string_view type;
    Bytes content;
};

// The boxes one after the other; the rest is left out if one is damaged.
std::vector<FileBox> boxes_in(Bytes bytes) {
    constexpr std::size_t kMost = 10'000;
    std::vector<FileBox> boxes;
    while (bytes.size() >= 8 && boxes.size() < kMost) {
        std::uint64_t size = load_be(bytes, 0, 4);
        std::size_t header = 8;
        if (size == 1 && bytes.size() >= 16) {
            header = 16;
            size = std::uint64_t{load_be(bytes, 8, 4)} << 32 | load_be(bytes, 12, 4);
        } else if (size == 0) {
            size = bytes.size();
        }
        if (size < header || size > bytes.size()) {
            break;
        }
        boxes.push_back({text_of(bytes, 4, 4), bytes.subspan(header, size - header)});
        bytes = bytes.subspan(size);
    }
    return boxes;
}

// The content of the first box of this type; empty without one. `skip`: bytes before it, as of a full box.
Bytes find(Bytes bytes, std::string_view type, std::size_t skip = 0) {
    const std::vector<FileBox> boxes = boxes_in(bytes);
    const auto found = std::ranges::find(boxes, type, &FileBox::type);
    return found == boxes.end() || found->content.size() < skip ? Bytes() : found->content.subspan(skip);
}

// Numbers from a box, 0 behind its end.
class Numbers {
  public:
    explicit Numbers(Bytes bytes) : bytes_(bytes) {}
    std::uint32_t take(std::size_t size) {
        if (bytes_.size() < size) {
            bytes_ = {};
            return 0;
        }
        const std::uint32_t value = load_be(bytes_, 0, size);
        bytes_ = bytes_.subspan(size);
        return value;
    }
    bool at_end() const { return bytes_.empty(); }

  private:
    Bytes bytes_;
};

// The numbers, from 1 on, of the properties of this item.
std::vector<std::uint32_t> properties_of(Bytes associations, std::uint32_t item) {
    Numbers numbers(associations);
    const std::uint32_t version = numbers.take(1);
    const bool wide = (numbers.take(3) & 1) != 0;
    std::vector<std::uint32_t> found;
    for (std::uint32_t entries = numbers.take(4); entries > 0 && !numbers.at_end(); --entries) {
        const bool wanted = numbers.take(version < 1 ? 2 : 4) == item;
        for (std::uint32_t count = numbers.take(1); count > 0; --count) {
            const std::uint32_t property = wide ? numbers.take(2) & 0x7FFF : numbers.take(1) & 0x7F;
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
    const Bytes meta = find(bytes, "meta"sv, 4);
    Numbers numbers(find(meta, "pitm"sv));
    const std::uint32_t version = numbers.take(4) >> 24;
    const std::uint32_t item = numbers.take(version == 0 ? 2 : 4);
    const Bytes boxes = find(meta, "iprp"sv);
    Properties found{.primary = {}, .all = boxes_in(find(boxes, "ipco"sv))};
    for (const std::uint32_t number : properties_of(find(boxes, "ipma"sv), item)) {
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
    // Cameras append what is no box.
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
