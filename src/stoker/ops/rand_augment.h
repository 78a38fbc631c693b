// torchvision's RandAugment: applies `num_ops` of fourteen ops, one after the other, all with one magnitude.
#pragma once

#include "stoker/base/rng.h"
#include "stoker/ops/augment.h"

namespace stoker {

struct RandAugment {
    int num_ops = 2;
    int magnitude = 9;  // a bin, 0 <= magnitude < bins
    int bins = 31;      // num_magnitude_bins, at least 2
    Interpolation interpolation = Interpolation::nearest;
    Fill fill{};
};

// Draws one of the ops; to be called `num_ops` times. Throws InvalidArgument.
AugmentParams draw_rand_augment(const RandAugment& op, ImageSize image, Rng& rng);

}  // namespace stoker
