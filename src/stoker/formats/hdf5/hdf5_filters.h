// What HDF5's filters did to a chunk, undone: deflate, shuffle and the fletcher32 checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/hdf5/hdf5_info.h"

namespace stoker {

// Throws Unsupported, naming it, for a filter that is none of the three, or for one that occurs twice.
void check_filters(const Hdf5Info& info, const std::string& path);

// The `size` bytes of the chunk that is stored as `stored`. Bit i of `mask` says that filter i was left out. The buffer
// grows no further than deflate can. Throws DataError, without a path, for damaged bytes or another size.
Buffer undo_filters(std::span<const Hdf5Filter> filters, std::uint32_t mask, std::span<const std::byte> stored,
                    std::uint64_t size);

// The checksum as the library computes it: sums of 16-bit words, of which the first byte is the high one.
std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace stoker
