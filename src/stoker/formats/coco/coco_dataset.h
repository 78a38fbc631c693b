// Images with boxes, as COCO stores them: annotations/instances_*.json and folders of images.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/coco/coco_index.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/sample_files.h"

namespace stoker {

// True for a folder with annotations/instances_*.json, and for a file x.json.
bool is_coco_path(const std::string& path);

// True for a folder with one such file for each split: instances_train*.json and instances_val*.json.
bool coco_has_splits(const std::string& path);

class CocoDataset final : public Dataset {
  public:
    // Samples are all images in the order of their ids, as torchvision's CocoDetection has them, also those without
    // boxes. The images of instances_X.json are in X, images/X or images, or next to the file; `fields.image` names
    // another folder. Fields, by their `from` or name; without `fields.more`, the first two:
    //   boxes    float32 (any, 4), x1 y1 x2 y2
    //   labels   int64 (any), the classes of the boxes, numbered in the order of the category ids
    //   iscrowd  uint8 (any)
    // Polygons and run-length masks are not read. Throws DataError for damaged files and for other fields.
    CocoDataset(const std::string& path, Split split, const FieldNames& fields = {});

    std::int64_t size() const override { return files_->size(); }
    void read(std::int64_t index, Sample& sample) const override;
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    // The image's path within the folder of images.
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override { files_->prefetch(indices); }
    std::optional<std::int64_t> label(std::int64_t /*index*/) const override { return -1; }
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "coco"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return files_->bytes(); }

  private:
    enum class Source { boxes, labels, iscrowd };

    void add_field(const FieldRequest& request);

    std::string path_;  // of the file of annotations
    std::vector<Field> fields_;
    std::vector<Source> sources_;  // of fields_
    std::vector<std::string> classes_;
    std::vector<std::size_t> begins_;          // of each image's boxes, then their number
    std::vector<std::array<float, 4>> boxes_;  // (boxes, 4)
    std::vector<std::int64_t> labels_;         // of the boxes
    std::vector<std::uint8_t> crowds_;         // of the boxes
    std::unique_ptr<SampleFiles> files_;
};

}  // namespace stoker
