// The interface that every data set has: a size, and random access to samples. A data set of your own in C++ is a class
// derived from Dataset with a constructor, `size` and `read`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

// The part of a data set that has two: MNIST's train-* or t10k-* files, synth's training or test images.
enum class Split { train, test };

constexpr std::string_view split_name(Split split) {
    return split == Split::train ? "train" : "test";
}

// The names of the image field and the label field, for data sets with named fields (HDF5, npz, stk, WebDataset,
// pickled dicts). An empty name is chosen among the usual ones, which fields.h lists.
struct FieldNames {
    std::string image;
    std::string label;
};

// One sample as stored. `bytes` is either an encoded image (JPEG, PNG, ...) or raw uint8 pixels (height, width,
// channels). It points into the dataset or into `storage` and stays valid until the sample is read into again. Each
// worker reuses one Sample, so that its memory is kept.
struct Sample {
    std::span<const std::byte> bytes;
    bool encoded = false;
    int height = 0;  // of raw pixels; 0 for an encoded image
    int width = 0;
    int channels = 0;
    std::int64_t label = -1;  // class index; -1 where the dataset has no labels
    Buffer storage;           // for datasets that have to copy or read

    // Both set all fields but `label` and `storage`.
    void set_raw(std::span<const std::byte> pixels, int rows, int columns, int depth) {
        bytes = pixels;
        encoded = false;
        height = rows;
        width = columns;
        channels = depth;
    }
    void set_encoded_image(std::span<const std::byte> image) {
        set_raw(image, 0, 0, 0);
        encoded = true;
    }
};

class Dataset {
  public:
    virtual ~Dataset() = default;

    virtual std::int64_t size() const = 0;

    // Reads sample `index` in [0, size()). Many threads call it at once. Throws DataError for damaged bytes and IoError
    // for a failed read; the caller adds the index.
    virtual void read(std::int64_t index, Sample& sample) const = 0;

    // The sample's stable name within the dataset, such as "cat/001.jpg". Batch hashes, splits by share and lists of
    // bad samples use it. The default is the index.
    virtual std::string key(std::int64_t index) const { return std::to_string(index); }

    // Announces the samples that are read next, a batch at a time. Must not wait for them. It is a hint: errors show
    // when the samples are read.
    virtual void prefetch(std::span<const std::int64_t> /*indices*/) const {}

    // The sample's class index (-1: no label) where it is known without reading the sample; otherwise empty.
    virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const { return std::nullopt; }

    // The numbers of samples in parts that are best read one after the other, such as shards behind a network. Empty
    // where every order is equally good.
    virtual std::vector<std::int64_t> shard_sizes() const { return {}; }

    // Names of the classes by label; empty where there are none.
    virtual std::span<const std::string> classes() const { return {}; }

    // "idx", "image_folder", ...
    virtual std::string_view format() const { return "custom"; }

    // The data's path or URL, for messages.
    virtual std::string path() const { return ""; }

    // One line of advice where the way the data are stored makes reading slow or leaves files out; otherwise empty.
    virtual std::string advice() const { return ""; }

    // Bytes on disk (in memory for data that Stoker draws); 0 where unknown.
    virtual std::int64_t bytes() const { return 0; }

  protected:
    // Throws InvalidArgument unless `index` is in [0, size()).
    void check_index(std::int64_t index) const;
};

// The sample's key, or its index where the record that holds the key is damaged.
std::string key_or_index(const Dataset& dataset, std::int64_t index);

}  // namespace stoker
