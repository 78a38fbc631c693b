// torchvision's RandomHorizontalFlip.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct HorizontalFlip {
    float probability = 0.5f;
};

bool draw_horizontal_flip(const HorizontalFlip& op, Rng& rng);

// Mirrors left and right, in place.
void horizontal_flip(ImageView image);

}  // namespace stoker
