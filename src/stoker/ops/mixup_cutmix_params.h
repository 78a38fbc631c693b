// Draws the parameters of torchvision v2's MixUp and CutMix: a share `lambda` and a box, once per batch. Each sample is
// mixed with the previous one of the batch. train/step/mixup_cutmix.h applies them to tensors.
#pragma once

#include <cstdint>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

// The op numbers of the batch ops' random streams. Ops on single samples never have these numbers.
enum class BatchOp : std::uint16_t { mixup = 0xFFF0, cutmix = 0xFFF1 };

// The random stream of (seed, epoch, batch, op).
Rng batch_rng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t batch, BatchOp op);

// MixUp's lambda, the share of the image itself: Beta(alpha, alpha), alpha from 1e-6 to 1e6; 1 is uniform. X / (X + Y)
// of two gamma variates, computed with logarithms, because small alphas underflow. Gamma by Marsaglia and Tsang, "A
// simple method for generating gamma variables" (ACM TOMS 26, 2000), with their factor U^(1/alpha) for alpha < 1.
// Depends only on the stream and the C library's log. Throws InvalidArgument.
double draw_beta(double alpha, Rng& rng);

struct CutMixParams {
    Box box{};
    double lambda = 1;  // the share of the image outside of the box
};

// A box around a random pixel with about the share 1 - Beta(alpha, alpha) of the image, clipped at the edges.
// Throws InvalidArgument.
CutMixParams draw_cutmix(double alpha, int height, int width, Rng& rng);

}  // namespace stoker
