// An object header of an HDF5 file, as far as two messages go: where the index of a chunked dataset begins, which the
// library keeps to itself, and where an attribute's values lie, since it does not survive damaged ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/io/byte_file.h"

namespace stoker {

// The address of the B-tree of version 1 that lists a dataset's chunks (all ones: none was written yet), given the
// address of the dataset's object header. Nothing where the layout is of version 4 or later, with indexes of other
// kinds. Throws DataError for damaged headers.
std::optional<std::uint64_t> find_chunk_tree(const Hdf5Bytes& file, std::uint64_t header);

// Where the values of an attribute lie in the file, up to the end of the header's block; nothing where it has none of
// that name, or keeps its attributes elsewhere, as it does past 8 of them in the newer forms.
std::optional<ByteRange> find_attribute(const Hdf5Bytes& file, std::uint64_t header, std::string_view name);

}  // namespace stoker
