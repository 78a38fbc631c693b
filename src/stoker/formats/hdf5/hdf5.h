// A data set in an HDF5 file: images as one uint8 array, or encoded images as one dataset of variable-length uint8;
// labels as integers. HDF5's C library reads the file's structure and the labels. We read the images ourselves, because
// the library allows one thread at a time.
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

namespace stoker {

class Hdf5Bytes;
class Hdf5Records;
enum class Hdf5Access : std::uint8_t;

// A field is a dataset; one in a group has a name such as "train/images". Class names are the attribute `classes`, an
// array of strings, of the labels' dataset or of the file; without it, "0" up to the largest label. Keys are a dataset
// of strings, one for each image, next to the images ("keys", "train/keys", ...); without it, "train/12" in a file of
// two splits, otherwise the index.
//
// Further fields are datasets (N, ...) of numbers, and of variable-length uint8: images, masks or bytes.
//
// Arrays are (N, H, W), (N, H, W, C) or (N, C, H, W). They are contiguous, compact, or chunked with the filters
// deflate, shuffle and fletcher32. Contiguous arrays are read fastest, then chunks of one sample. Chunks of many
// samples are slow in random order, although 64 MiB of decoded chunks are cached (hdf5_chunks.h).
class Hdf5Dataset final : public Dataset {
  public:
    // Throws IoError, DataError, or Unsupported for other filters, virtual and external datasets. Tests set `access` to
    // compare our reading with the library's.
    Hdf5Dataset(const std::string& path, Split split, const FieldNames& fields, Hdf5Access access = {});
    ~Hdf5Dataset() override;

    std::int64_t size() const override { return size_; }
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return classes_; }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    std::string_view format() const override { return "hdf5"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override;
    // Warns of chunks of several images in a data set larger than the cache.
    std::string advice() const override { return advice_; }

  private:
    struct Opening;  // used by the constructor only

    void open_images(const Opening& opening, const std::string& name, bool clips, Hdf5Access access);
    void open_labels(const Opening& opening, const std::string& name);
    void open_keys(const Opening& opening, const std::string& image_name);
    void open_field(const Opening& opening, const FieldRequest& request, Hdf5Access access);
    void read_fields(std::int64_t index, Sample& sample) const;

    std::string path_;
    Split split_;
    std::int64_t size_ = 0;
    std::optional<ImageArray> layout_;  // empty: encoded images
    std::vector<std::int64_t> labels_;  // empty without labels
    std::vector<std::string> classes_;
    std::string advice_;
    std::vector<std::string> keys_;  // empty without keys in the file
    bool split_keys_ = false;
    std::string image_name_;
    std::optional<std::string> label_name_;
    std::vector<Field> fields_;              // the fields other than image and label
    std::unique_ptr<const Hdf5Bytes> file_;  // outlives the records
    std::unique_ptr<const Hdf5Records> records_;
    struct Column {            // of fields_
        bool encoded = false;  // variable-length bytes
        ArrayView record;      // of numbers: one sample's, without bytes
        std::unique_ptr<const Hdf5Records> records;
    };
    std::vector<Column> columns_;
};

// True for .h5 and .hdf5.
bool is_hdf5_name(std::string_view name);

// True if the file has images of both splits under the usual names. Throws if it cannot be read.
bool hdf5_has_splits(const std::string& path);

}  // namespace stoker
