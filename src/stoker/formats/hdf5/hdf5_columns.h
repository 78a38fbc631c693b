// The parts of an HDF5 file that are read completely when it is opened: labels, keys, class names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

// A list of strings in one block of memory: a million std::strings would take twice as much.
class Hdf5Strings {
  public:
    void add(std::string_view text);
    std::size_t size() const { return ends_.size(); }
    std::string_view operator[](std::size_t index) const;
    std::vector<std::string_view> views() const;

  private:
    std::string all_;
    std::vector<std::size_t> ends_;
};

// Labels as array_labels.h defines them: integers (N) or (N, 1), or one-hot rows (N, K). `count`: the number of images.
// Throws DataError for another type, shape or number of labels.
std::vector<std::int64_t> read_labels(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info,
                                      std::int64_t count);

// The strings of a one-dimensional dataset, of fixed or variable length.
Hdf5Strings read_strings(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info);

// The strings of an attribute; empty if the object has no attribute of that name. Throws DataError if it holds no
// strings.
std::optional<Hdf5Strings> read_string_attribute(const Hdf5Bytes& file, const Hdf5Id& object, const char* name);

}  // namespace stoker
