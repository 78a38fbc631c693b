// torchvision v2's MixUp on a batch: every image becomes lambda of itself and 1 - lambda of the one before.
#pragma once

#include "stoker/base/buffer.h"
#include "stoker/base/rng.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

struct MixUp {
    double alpha = 1;  // of Beta(alpha, alpha); 1 is uniform
};

// Lambda.
double draw_mixup(const MixUp& op, Rng& rng);

// `images` float32 (N, ...), N >= 1, in place; image 0 is mixed with the last. `scratch` keeps one image.
// Two-dimensional targets mix the same way; labels go through soft_targets (batch_mix.h). Bits of torchvision.
void mixup(const TensorView& images, double lambda, Buffer& scratch);

}  // namespace stoker
