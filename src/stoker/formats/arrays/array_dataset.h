// The data set in a file of named arrays: one array of images and one of labels, chosen by their names (fields.h), and
// further ones that are asked for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/map_or_read.h"
#include "stoker/formats/arrays/array_file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/fields.h"

namespace stoker {

class ArrayDataset final : public Dataset {
  public:
    // Images are (N, H, W), (N, H, W, C) or (N, C, H, W) of a type that images have (is_image_dtype), and clips have
    // one more side, (N, T, ...). array.h describes labels; without labels all are -1. A text array "classes" names the
    // classes. Keys are "train/12" and "test/12" in a file with both splits, otherwise the texts in "keys" where the
    // file has them, otherwise the index. The arrays of `fields.more` are (N,
    // ...) of a type that DType has; booleans become uint8. Further images are as the first, masks are (N, H, W).
    // Throws IoError, DataError, and Unsupported for other types.
    ArrayDataset(const std::string& path, Split split, const FieldNames& fields = {});

    std::int64_t size() const override { return images_.shape[0]; }
    // Refers to the map, or to a copy read from the file into `sample.storage`; map_or_read.h has the rule. A sample's
    // elements in Fortran order are scattered over the file and are gathered one by one.
    void read(std::int64_t index, Sample& sample) const override;
    // Brings small samples into the processor's cache and large ones into memory.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::span<const Field> fields() const override { return fields_; }
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return file_.format; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return file_.bytes; }
    std::vector<Field> stored_fields() const override;

  private:
    void load_images(const std::string& name, bool clips);
    void load_labels(const std::string& name);
    void load_field(const FieldRequest& request, const std::string& name);
    void load_classes_and_keys(bool splits);

    std::string path_;
    ArrayFile file_;
    ArrayView images_;
    ImageArray layout_;  // of one sample
    std::size_t sample_bytes_ = 0;
    MapOrRead map_or_read_;
    std::vector<std::int64_t> labels_;  // empty without labels
    std::vector<Field> fields_;         // the fields other than image and label
    std::vector<ArrayView> columns_;    // the arrays of fields_
    FoundFields found_;                 // the names of images and labels
    std::vector<std::string> classes_;
    std::vector<std::string> keys_;  // empty if keys are prefix and index
    std::string prefix_;
};

// True if the file has images of both splits.
bool arrays_have_splits(const std::string& path);

}  // namespace stoker
