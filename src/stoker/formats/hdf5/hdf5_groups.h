// Groups of an HDF5 file, checked before libhdf5 lists them: it overflows the stack if a node of a group's B-tree is
// its own child.
#pragma once

#include <cstdint>

#include "stoker/formats/hdf5/hdf5_bytes.h"

namespace stoker {

// Visits all groups below the object header at the address `root` that have B-trees of version 1, and groups with the
// links in their headers. Throws DataError for a node that occurs twice or is not one level below its parent. The other
// kinds of groups are left to libhdf5: their trees have a depth.
void require_sound_groups(const Hdf5Bytes& file, std::uint64_t root);

}  // namespace stoker
