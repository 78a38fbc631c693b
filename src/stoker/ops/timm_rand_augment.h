// timm's RandAugment ("rand-m9-mstd0.5-inc1"): applies `num_ops` of fifteen ops, one after the other, each with a
// probability and with a magnitude that may vary. The ops' pixels are torchvision's (augment.h).
#pragma once

#include <optional>

#include "stoker/base/rng.h"
#include "stoker/ops/augment.h"

namespace stoker {

struct TimmRandAugment {
    int num_ops = 2;
    float magnitude = 10;      // of at most `most`; 10 is the whole range of each op
    float magnitude_std = 0;   // standard deviation of the magnitude; above 100: uniform from 0 to `magnitude`
    float most = 10;           // the magnitude is clipped to it
    bool increasing = false;   // a larger magnitude always changes more, as with "inc1"
    float probability = 0.5f;  // of each op
    std::optional<Interpolation> interpolation{};  // of moved pixels; empty: bilinear or bicubic, drawn for each op
    Fill fill{};
};

// Draws one of the ops; to be called `num_ops` times.
AugmentParams draw_timm_rand_augment(const TimmRandAugment& op, ImageSize image, Rng& rng);

}  // namespace stoker
