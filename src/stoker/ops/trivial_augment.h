// torchvision's TrivialAugmentWide: applies one of fourteen ops with one of `bins` magnitudes.
#pragma once

#include "stoker/base/rng.h"
#include "stoker/ops/augment.h"

namespace stoker {

struct TrivialAugmentWide {
    int bins = 31;  // num_magnitude_bins, at least 2
    Interpolation interpolation = Interpolation::nearest;
    Fill fill{};
};

AugmentParams draw_trivial_augment(const TrivialAugmentWide& op, Rng& rng);

}  // namespace stoker
