// Turns pixels upright as an EXIF orientation says.
#pragma once

#include "stoker/base/image.h"

namespace stoker {

// Streams `image` (H, W, C) into `sink` the way a viewer shows it. `orientation` 1..8 says on which
// sides of the upright picture the stored row 0 and column 0 lie (EXIF 2.32, tag 0x0112); 5 to 8
// exchange height and width. Calls start and row, not finish. Throws InvalidArgument.
void turn_upright(ConstImageView image, int orientation, RowSink& sink);

// Where the pixels of `upright`, a box of the upright picture, lie in a stored image of (height, width).
Box stored_box(const Box& upright, int orientation, int height, int width);

inline bool swaps_sides(int orientation) {
    return orientation >= 5;
}

}  // namespace stoker
