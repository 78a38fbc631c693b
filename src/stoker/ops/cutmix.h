// torchvision v2's CutMix on a batch: a box of every image is replaced by that of the image before.
#pragma once

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/base/tensor_view.h"
#include "stoker/ops/normalize.h"

namespace stoker {

struct CutMix {
    double alpha = 1;  // of Beta(alpha, alpha); 1 is uniform
};

struct CutMixParams {
    Box box{};
    double lambda = 1;  // the share of an image that is its own; goes into soft_targets (batch_mix.h)
};

// A box of about the share 1 - Beta around a random pixel, cut off at the edges; lambda is what it then leaves.
CutMixParams draw_cutmix(const CutMix& op, int height, int width, Rng& rng);

// `images` of shape (N, C, H, W) and any type, in memory as planes (chw) or channels last (hwc), in place; image 0
// gets its part from the last. `scratch` keeps one part. Throws InvalidArgument where the box does not fit.
void cutmix(const TensorView& images, Layout layout, const Box& box, Buffer& scratch);

}  // namespace stoker
