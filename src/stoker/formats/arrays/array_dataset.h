// The data set in a file of named arrays: images in one, labels in another, found by their names (fields.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/in_place.h"
#include "stoker/formats/arrays/array_file.h"
#include "stoker/formats/dataset.h"

namespace stoker {

class ArrayDataset final : public Dataset {
  public:
    // Images are uint8 of (N, H, W), (N, H, W, C) or (N, C, H, W), labels as array_labels.h says; without labels all
    // are -1. Where the file has text arrays, "classes" names the classes, and "keys" the samples unless there are
    // splits; else keys are "train/12" and "test/12" in a file with both splits, and the index in others.
    // Throws IoError, DataError, and Unsupported for images of other types.
    ArrayDataset(const std::string& path, Split split, const FieldNames& fields = {});

    std::int64_t size() const override { return images_.shape[0]; }
    // A view into the map, or a copy in `sample.storage`, read from the file: in_place.h says when. Elements in Fortran
    // order lie apart, a sample's all over the file: they are gathered.
    void read(std::int64_t index, Sample& sample) const override;
    // Small samples into the processor's cache, large ones into memory.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return file_.format; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return file_.bytes; }

  private:
    void take_images(const std::string& name);
    void take_labels(const std::string& name);
    void take_texts(bool splits);
    void check(std::int64_t index) const;

    std::string path_;
    ArrayFile file_;
    ArrayView images_;
    ImageArray layout_;  // of one sample
    std::size_t sample_bytes_ = 0;
    InPlace in_place_;
    std::vector<std::int64_t> labels_;  // empty where there are none
    std::vector<std::string> classes_;
    std::vector<std::string> keys_;  // empty where keys are made of prefix and index
    std::string prefix_;
};

// Whether the file has fields of both splits.
bool arrays_have_splits(const std::string& path);

}  // namespace stoker
