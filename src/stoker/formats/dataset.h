// What every data set looks like to the pipeline: a size, and random access to samples. Own data
// in C++ is a class derived from Dataset with a constructor, `size` and `read`.
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

// Which half of a data set that has two: MNIST's train-* or t10k-* files, synth's training or test images.
enum class Split { train, test };

// What the image and the label of a sample are called, where a data set has fields of several names (HDF5, npz, stk,
// WebDataset, pickled dicts). Empty: found among the usual names, as fields.h lists them.
struct FieldNames {
    std::string image;
    std::string label;
};

// One sample as stored. `bytes` is either an encoded image (JPEG, PNG, ...) or raw uint8 pixels
// (height, width, channels); it points into the dataset or into `storage`, and stays valid until the
// sample is read into again. Reuse one Sample a worker: its memory is kept.
struct Sample {
    std::span<const std::byte> bytes;
    bool encoded = false;
    int height = 0;  // of raw pixels; 0 for an encoded image
    int width = 0;
    int channels = 0;
    std::int64_t label = -1;  // class index; -1 where the dataset has no labels
    Buffer storage;           // for datasets that have to copy or read
};

class Dataset {
  public:
    virtual ~Dataset() = default;

    virtual std::int64_t size() const = 0;

    // Reads sample `index` in [0, size()). Called by many threads at once. Throws DataError for bad
    // bytes and IoError for a failed read; the caller adds the index.
    virtual void read(std::int64_t index, Sample& sample) const = 0;

    // The sample's stable name within the dataset, such as "cat/001.jpg": what batch hashes, splits by
    // share and lists of bad samples go by. The default is the index.
    virtual std::string key(std::int64_t index) const { return std::to_string(index); }

    // Tells which samples are wanted next, a batch at a time; must not wait for them. A hint: what goes wrong shows
    // when they are read.
    virtual void prefetch(std::span<const std::int64_t> /*indices*/) const {}

    // The sample's class index where it is known without reading the sample (-1: has none); empty where it is not.
    virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const { return std::nullopt; }

    // Numbers of samples, in order, of parts that are best read one after the other: shards behind a network.
    // Empty where any order is as good.
    virtual std::vector<std::int64_t> shard_sizes() const { return {}; }

    // Names of the classes by label; empty where there are none.
    virtual std::span<const std::string> classes() const { return {}; }

    // "idx", "image_folder", ...
    virtual std::string_view format() const { return "custom"; }

    // Where the data lies, for messages.
    virtual std::string path() const { return ""; }

    // What about the way in which the data are stored makes their reading slow or leaves some out, and what to do about
    // it: one line. Empty where nothing is to be said.
    virtual std::string advice() const { return ""; }

    // Bytes on disk (in memory for data that Stoker makes); 0 where unknown.
    virtual std::int64_t bytes() const { return 0; }
};

}  // namespace stoker
