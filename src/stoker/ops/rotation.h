// torchvision's RandomRotation about the image's centre, without `expand`: the size does not change.
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
    float probability = 1;
};

// Returns the angle in degrees. Throws InvalidArgument.
float draw_random_rotation(const RandomRotation& op, Rng& rng);

// torchvision's rotate as its affine: the angle in [0, 360), clockwise.
AffineParams rotation_of(double degrees);

// Rotates in place, C = 1..4. `scratch` holds a copy of the original.
void rotate(ImageView image, double degrees, Interpolation interpolation, const Fill& fill, Image& scratch);

}  // namespace stoker
