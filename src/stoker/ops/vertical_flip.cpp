// Swaps rows from both ends towards the middle.
#include "stoker/ops/vertical_flip.h"

#include <algorithm>

namespace stoker {

bool draw_vertical_flip(const VerticalFlip& op, Rng& rng) {
    return rng.chance(op.probability);
}

void vertical_flip(ImageView image) {
    for (int y = 0; y < image.height / 2; ++y) {
        std::swap_ranges(image.row(y), image.row(y) + image.row_bytes(), image.row(image.height - 1 - y));
    }
}

}  // namespace stoker
