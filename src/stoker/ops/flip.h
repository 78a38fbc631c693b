// torchvision's RandomHorizontalFlip and RandomVerticalFlip.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct HorizontalFlip {
    float probability = 0.5f;
};

struct VerticalFlip {
    float probability = 0.5f;
};

bool draw_horizontal_flip(const HorizontalFlip& op, Rng& rng);
bool draw_vertical_flip(const VerticalFlip& op, Rng& rng);

// Mirrors left and right, in place. C = 1..4; throws InvalidArgument for other shapes.
void horizontal_flip(ImageView image);

// Mirrors top and bottom, in place.
void vertical_flip(ImageView image);

}  // namespace stoker
