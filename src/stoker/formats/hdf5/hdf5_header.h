// Two messages of an HDF5 object header: where the chunk index begins, which the library does not report, and where an
// attribute's values lie, because the library crashes on damaged ones of variable length.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// The address of the version 1 B-tree that lists a dataset's chunks; undefined (all ones) if none was written yet.
// `header`: address of the dataset's object header. Empty for a layout message of version 4 or later, which has other
// kinds of indexes. Throws DataError for a damaged header.
std::optional<std::uint64_t> find_chunk_tree(const Hdf5Bytes& file, std::uint64_t header);

// Where the values of an attribute begin, up to the end of the header's block. Empty if the header has no attribute of
// that name, or if the attributes lie elsewhere, as they do beyond 8 attributes in newer files.
std::optional<ByteRange> find_attribute(const Hdf5Bytes& file, std::uint64_t header, std::string_view name);

}  // namespace stoker
