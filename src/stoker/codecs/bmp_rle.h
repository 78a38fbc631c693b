// Run-length encoded rows of a BMP (compression 1 and 2).
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/buffer.h"

namespace stoker {

// Decodes the runs at `offset` to colour indices (height, width), in the order of the file, the lowest row first.
// `nibbles`: 4 bits a pixel, otherwise 8. Throws DataError if the runs do not fill the image. `indices` grows with the
// pixels that the runs describe, so a short file with a large size in its header costs no memory; throws MemoryError if
// they are too many.
void decode_bmp_runs(std::span<const std::byte> bytes, std::size_t offset, bool nibbles, int height, int width,
                     Buffer& indices);

}  // namespace stoker
