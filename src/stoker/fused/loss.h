// The losses' values and their gradients by the last layer's outputs, for one panel of samples. Internal to fused/.
// Cross entropy's gradient by the logits is softmax - target, so both come from one pass.
#pragma once

#include <cstdint>

#include "stoker/fused/fused_kernels.h"

namespace stoker {

// Samples `begin` to `end` of one panel, at most up to where the batch ends; begin is a multiple of kGroup.
struct LossPanel {
    const float* outputs;  // (features, kPanel), at sample `begin`
    float* grads;          // (features, kPanel), at sample `begin`; the mean loss' gradient, zeros beyond `end`
    int features;
    int samples;
    std::int64_t batch;  // what a mean divides by
    double* losses;      // (samples), each sample's own
};

void cross_entropy_panel(const FusedKernels& kernels, const LossPanel& panel, const std::int64_t* label,
                         double smoothing);
// target: (samples, features)
void mse_panel(const LossPanel& panel, const float* target);

}  // namespace stoker
