// torchvision's RandomRotation about the image's middle, without `expand`: the size stays.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"

namespace stoker {

struct RandomRotation {
    float low = 0;  // degrees, counter-clockwise
    float high = 0;
    Interpolation interpolation = Interpolation::nearest;
    Color fill{};
};

// The angle in degrees.
float draw_random_rotation(const RandomRotation& op, Rng& rng);

// Rotates in place; `scratch` holds the original meanwhile. C = 1..4.
void rotate(ImageView image, double degrees, Interpolation interpolation, const Outside& outside, Image& scratch);

}  // namespace stoker
