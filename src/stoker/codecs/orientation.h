// Reads the EXIF orientation, the only EXIF tag that changes pixels, and applies it to pixels and to boxes.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"

namespace stoker {

// The orientation 1..8 from an EXIF block: a TIFF header and its first directory, with or without "Exif\0\0" before
// it. Returns 1 if the tag is absent or the block is malformed: cameras and editors often damage metadata, and the
// pixels are still good.
int exif_orientation(std::span<const std::byte> block) noexcept;

// Writes `image` (H, W, C) into `sink` upright. `orientation` 1..8 is the EXIF tag 0x0112 (EXIF 2.32): on which sides
// of the upright picture the stored row 0 and column 0 lie; 5 to 8 exchange height and width.
// Calls start and row, not finish. Throws InvalidArgument.
void apply_orientation(ConstImageView image, int orientation, RowSink& sink);

// Converts a box of the upright picture to the same box of the stored image of (height, width).
Box stored_box(const Box& upright, int orientation, int height, int width);

inline bool swaps_sides(int orientation) {
    return orientation >= 5;
}

}  // namespace stoker
