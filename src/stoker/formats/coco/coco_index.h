// The images, boxes and classes of a COCO file of annotations (instances_*.json).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct CocoBox {
    std::array<float, 4> corners = {};  // x1 y1 x2 y2 in pixels
    std::int64_t label = 0;             // index into CocoIndex::classes
    std::uint8_t crowd = 0;
};

struct CocoIndex {
    std::vector<std::string> files;    // of the images, in the order of their ids
    std::vector<std::size_t> begins;   // first box of each image, then the number of boxes
    std::vector<CocoBox> boxes;        // of each image in the order of the file
    std::vector<std::string> classes;  // in the order of the category ids
};

// Throws DataError, with the offset if one is at fault, for text that is not JSON, for missing members, and for
// annotations of images and categories that the file does not have.
CocoIndex parse_coco(std::string_view json);

}  // namespace stoker
