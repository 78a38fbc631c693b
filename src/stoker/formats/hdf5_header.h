// An object header of an HDF5 file, as far as the one message goes that the library keeps to itself: where the index
// of a chunked dataset begins.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/formats/hdf5_bytes.h"

namespace stoker {

// The address of the B-tree of version 1 that lists a dataset's chunks (all ones: none was written yet), given the
// address of the dataset's object header. Nothing where the layout is of version 4 or later, with indexes of other
// kinds. Throws DataError for damaged headers.
std::optional<std::uint64_t> find_chunk_tree(const Hdf5Bytes& file, std::uint64_t header);

}  // namespace stoker
