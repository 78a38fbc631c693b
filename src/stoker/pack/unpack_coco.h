// Boxes of unpacked samples as COCO stores them: annotations/instances_all.json, and the images in images. The same
// boxes, labels and order are read back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class UnpackCoco {
  public:
    static constexpr const char* kFile = "annotations/instances_all.json";

    // Empty unless the further fields are boxes, and perhaps the boxes' classes (a label of any length) and iscrowd.
    static std::optional<UnpackCoco> of(const Dataset& dataset);

    struct Annotations {
        std::vector<std::string> texts = {};  // of the boxes: JSON that lacks the start with the id
        std::int64_t largest_class = 0;
    };

    // Throws DataError for boxes that COCO's x, y, width and height do not give back, for classes below 0, and for
    // another number of classes than boxes. Thread-safe.
    Annotations annotations(const Sample& sample, std::int64_t index) const;

    // Adds the next sample. `file`: within the folder of images.
    void add(const std::string& file, std::int64_t height, std::int64_t width, const Annotations& annotations);
    std::string json() const;

  private:
    std::optional<std::size_t> boxes_;
    std::optional<std::size_t> labels_;  // without them all boxes have one class
    std::optional<std::size_t> crowds_;
    std::vector<std::string> classes_;
    std::int64_t largest_class_ = 0;
    std::int64_t samples_ = 0;
    std::int64_t boxes_added_ = 0;
    std::string images_;  // the elements of the arrays
    std::string annotations_;
};

}  // namespace stoker
