#include "stoker/codecs/file_boxes.h"

#include <algorithm>

#include "stoker/codecs/byte_order.h"

namespace stoker {

std::string_view text_of(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes.data()) + at, size};
}

std::vector<FileBox> boxes_in(std::span<const std::byte> bytes) {
    std::vector<FileBox> boxes;
    while (bytes.size() >= 8 && boxes.size() < kMostBoxes) {
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

std::span<const std::byte> find_box(std::span<const std::byte> bytes, std::string_view type, std::size_t skip) {
    const std::vector<FileBox> boxes = boxes_in(bytes);
    const auto found = std::ranges::find(boxes, type, &FileBox::type);
    if (found == boxes.end() || found->content.size() < skip) {
        return {};
    }
    return found->content.subspan(skip);
}

std::uint64_t Numbers::take(std::size_t size) {
    if (bytes_.size() < size) {
        bytes_ = {};
        complete_ = false;
        return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes_[i]);
    }
    bytes_ = bytes_.subspan(size);
    return value;
}

}  // namespace stoker
