// What mixup and cutmix share: both mix each sample of a batch with the one before it, by a share that is
// drawn once per batch, and mix the targets alike. Partners as in torchvision v2: the batch rolled by one.
#pragma once

#include <cstdint>
#include <span>

#include "stoker/base/rng.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

// Which batch op draws: numbers that no op on single samples has.
enum class BatchOp : std::uint16_t { mixup = 0xFFF0, cutmix = 0xFFF1 };

// The stream of (seed, epoch, batch, op), whoever makes the batch.
Rng batch_rng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t batch, BatchOp op);

// Beta(alpha, alpha), alpha from 1e-6 to 1e6: X / (X + Y) of two gamma variates, in logarithms because small
// alphas underflow. Gamma by Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS
// 26, 2000), with their factor U^(1/alpha) below 1. A pure function of the stream and of the C library's log.
double draw_beta(double alpha, Rng& rng);

// Class indices (N) to `targets` float32 (N, classes): lambda for the own class, 1 - lambda for that of the
// sample before, and for sample 0 of the last. Throws InvalidArgument for labels outside 0 ... classes - 1.
void soft_targets(std::span<const std::int64_t> labels, double lambda, const TensorView& targets);

}  // namespace stoker
