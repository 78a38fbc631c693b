// Opens a data set by its path, URL or name, as a recipe or a command gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct OpenOptions {
    FieldNames fields = {};     // which fields to read, for data with named fields
    RemoteOptions remote = {};  // for data behind URLs
    std::int64_t context = 0;   // tokens in a sample of a token stream, which needs it
    bool validation = false;    // of data with validation and test files, Split::test means validation
};

// `data` is one of: a folder of images (one subfolder for each class), a table of images (x.csv, a folder with
// labels.csv), images with masks (a folder with images and masks), COCO's files (x.json, a folder with annotations),
// tokens (x.bin, a flat x.npy), a directory of IDX or CIFAR files, a packed set (x.stk), an LMDB database (x.lmdb,
// x.mdb, a folder with data.mdb), Parquet and Arrow files (arrow/open_arrow.h), WebDataset shards (x.tar,
// x-{000..127}.tar, a folder of them), TFRecord shards (x.tfrecord, x-*.tfrecord, x-00000-of-00010, a folder of them),
// a file of arrays (.npy, .npz, .safetensors, .pt; a folder with images.npy), an HDF5 file, a folder with the
// index.json of MDS or LitData, or "synth:digits[?count=N&seed=S]". Packed sets and shards may lie behind URLs
// (http(s)://, s3://, gs://, hf://). Throws IoError if the path does not exist, DataError or Unsupported if it holds
// nothing readable; the message lists what can be read. Throws MemoryError for data that must be held in memory and
// does not fit; mapped data may be of any size.
std::unique_ptr<Dataset> open_dataset(const std::string& data, Split split, const OpenOptions& options = {});

// True for data in any of these formats but a folder of images.
bool is_other_than_image_folder(const std::string& data);

// True if the two splits of `data` differ: an IDX or CIFAR directory, synth:digits, arrays named x_train and x_test.
// A folder of images has one split only. `fields`: as for open_dataset.
bool has_splits(const std::string& data, const FieldNames& fields = {});

}  // namespace stoker
