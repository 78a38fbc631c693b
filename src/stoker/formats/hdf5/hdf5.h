// A data set in an HDF5 file: images as one uint8 array, or as encoded images in one dataset of variable-length
// uint8, with integers as labels. HDF5's C library reads the file's structure and the labels; images are read past
// it, since it lets only one thread in at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/open_options.h"

namespace stoker {

class Hdf5Bytes;
class Hdf5Records;
class Hdf5Texts;
enum class Hdf5Access : std::uint8_t;

// Fields are datasets, those in groups by names such as "train/images". Classes are the attribute `classes`, an array
// of strings, of the labels or the file, else "0" to the largest label. Keys are a dataset of strings named
// as images are ("keys", "train/keys", ...), one for each image; else "train/12" in a file of two splits, else the
// index.
//
// Arrays are (N, H, W), (N, H, W, C) or (N, C, H, W), contiguous, compact or in chunks behind deflate, shuffle and
// fletcher32. 64 MiB of decoded chunks are kept: random order over chunks of many samples costs a decoding of the
// whole chunk for each sample (hdf5_cache.h), so chunks of one sample are best, and contiguous arrays better still.
class Hdf5Dataset final : public Dataset {
  public:
    // Throws IoError, DataError, or Unsupported for other filters, virtual and external datasets.
    Hdf5Dataset(const std::string& path, Split split, const FieldNames& fields);
    // `access` chooses the slow way, for tests.
    Hdf5Dataset(const std::string& path, Split split, const FieldNames& fields, Hdf5Access access);
    ~Hdf5Dataset() override;

    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "hdf5"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override;
    // Names chunks of several images, each of which is decoded whole for one of them.
    std::string advice() const override { return advice_; }

  private:
    struct Opening;  // what only the constructor needs

    void open_images(const Opening& opening, const std::string& name, Hdf5Access access);
    void open_labels(const Opening& opening, const std::string& name);
    void open_keys(const Opening& opening);
    void check_index(std::int64_t index) const;

    std::string path_;
    Split split_;
    std::int64_t size_ = 0;
    std::optional<ImageArray> layout_;  // empty: encoded images
    std::string image_name_;
    std::vector<std::int64_t> labels_;  // empty where there are none
    std::vector<std::string> classes_;
    std::string advice_;
    std::unique_ptr<const Hdf5Texts> keys_;
    bool split_keys_ = false;
    std::unique_ptr<const Hdf5Bytes> file_;  // outlives records_
    std::unique_ptr<const Hdf5Records> records_;
};

// .h5 or .hdf5
bool is_hdf5_name(std::string_view name);

// Whether it has images of both splits by the usual names; throws where the file cannot be read.
bool hdf5_has_splits(const std::string& path);

}  // namespace stoker
