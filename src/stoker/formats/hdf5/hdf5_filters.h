// Reverses HDF5's filters on a chunk: deflate, shuffle and the fletcher32 checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/hdf5/hdf5_info.h"

namespace stoker {

// Throws Unsupported, with the filter's name, for any other filter and for one that occurs twice.
void check_filters(const Hdf5Info& info, const std::string& path);

// The chunk's `size` bytes, from the bytes in the file. Bit i of `mask` is set if filter i was not applied. `size` is
// checked against deflate's largest ratio before memory is allocated. Throws DataError, without a path, for damaged
// bytes or another size.
Buffer undo_filters(std::span<const Hdf5Filter> filters, std::uint32_t mask, std::span<const std::byte> stored,
                    std::uint64_t size);

// HDF5's checksum: two sums over big-endian 16-bit words.
std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace stoker
