// Finds out what a data specification of a recipe or a command means and opens it.
#pragma once

#include <memory>
#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open_options.h"

namespace stoker {

// `data` is a folder of images (one subfolder a class), a directory of IDX files, a packed set (x.stk), an LMDB
// database (x.lmdb, x.mdb, a folder with data.mdb), WebDataset shards (x.tar, x-{000..127}.tar, a folder of them), a
// file of arrays (.npy, .npz, .safetensors; a folder with images.npy), an HDF5 file, or
// "synth:digits[?count=N&seed=S]". Packed sets and shards may lie behind http://, https:// and s3://. Throws IoError
// for a path that is not there, DataError or Unsupported for one that holds nothing readable; the message says what
// would be.
std::unique_ptr<Dataset> open_dataset(const std::string& data, Split split, const OpenOptions& options = {});

// Where the two splits of `data` are different data: an IDX directory, synth:digits, an npz with x_train and x_test. A
// folder of images has only one.
bool has_splits(const std::string& data);

}  // namespace stoker
