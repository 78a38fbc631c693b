// torchvision's RandomVerticalFlip.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct VerticalFlip {
    float probability = 0.5f;
};

bool draw_vertical_flip(const VerticalFlip& op, Rng& rng);

// Turns the image upside down, in place.
void vertical_flip(ImageView image);

}  // namespace stoker
