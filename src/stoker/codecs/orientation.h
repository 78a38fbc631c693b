// Applies an EXIF orientation to pixels and to boxes.
#pragma once

#include "stoker/base/image.h"

namespace stoker {

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
