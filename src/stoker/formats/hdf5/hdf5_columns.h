// What of an HDF5 file is read whole, through the library, while it is opened: labels, keys, names of classes.
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

// Strings, one after the other: a million of their own would double the memory.
class Hdf5Texts {
  public:
    void add(std::string_view text);
    std::size_t size() const { return ends_.size(); }
    std::string_view operator[](std::size_t index) const;

  private:
    std::string all_;
    std::vector<std::size_t> ends_;
};

// As array_labels takes them: integers of (N) or (N, 1), or one-hot rows. Throws DataError for another type, shape or
// number.
std::vector<std::int64_t> read_labels(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info,
                                      std::int64_t count);

// The strings of a dataset of one dimension, fixed or variable in length.
Hdf5Texts read_texts(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info);

// The strings of an attribute of the object; nothing where it has none of that name. Throws DataError for an attribute
// of another type.
std::optional<Hdf5Texts> read_text_attribute(const Hdf5Bytes& file, const Hdf5Id& object, const char* name);

}  // namespace stoker
