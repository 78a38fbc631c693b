// The one EXIF tag that changes pixels: the orientation. Everything else in the block is skipped.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

// The orientation 1..8 in an EXIF block: a TIFF header with its first directory, with or without
// "Exif\0\0" before it. 1 where the tag is absent or the block is malformed: it is metadata that
// cameras and editors often damage, and no reason to refuse good pixels.
int exif_orientation(std::span<const std::byte> block) noexcept;

}  // namespace stoker
