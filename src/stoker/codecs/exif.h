// Reads the EXIF orientation, the only EXIF tag that changes pixels.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

// The orientation 1..8 from an EXIF block: a TIFF header and its first directory, with or without "Exif\0\0" before
// it. Returns 1 if the tag is absent or the block is malformed: cameras and editors often damage metadata, and the
// pixels are still good.
int exif_orientation(std::span<const std::byte> block) noexcept;

}  // namespace stoker
