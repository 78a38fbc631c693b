// torchvision's RandomAffine about the image's centre: the size does not change.
#pragma once

#include <array>

#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/resize.h"

namespace stoker {

struct RandomAffine {
    FactorRange degrees{0, 0};             // clockwise
    std::array<float, 2> translate{0, 0};  // the largest shift, as shares of the width and the height
    FactorRange scale{};
    FactorRange shear_x{0, 0};  // degrees
    FactorRange shear_y{0, 0};
    Interpolation interpolation = Interpolation::nearest;
    Color fill{};
    float probability = 1;
};

// Shifts are whole pixels. Always draws six numbers, so that one range does not change the draws of the others. Throws
// InvalidArgument.
AffineParams draw_random_affine(const RandomAffine& op, ImageSize image, Rng& rng);

}  // namespace stoker
