// The parts of an HDF5 file that are read completely when it is opened: labels, keys, class names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

// Labels as array.h defines them: integers (N) or (N, 1), or one-hot rows (N, K). `count`: the number of images.
// Throws DataError for another type, shape or number of labels.
std::vector<std::int64_t> read_labels(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info,
                                      std::int64_t count);

// The strings of a one-dimensional dataset, of fixed or variable length.
std::vector<std::string> read_strings(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info);

// The strings of an attribute; empty if the object lacks that attribute. Throws DataError if it does not hold strings.
std::optional<std::vector<std::string>> read_string_attribute(const Hdf5Bytes& file, const Hdf5Id& object,
                                                              const char* name);

}  // namespace stoker
