// The losses of the tasks, equal to those of torch.nn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "stoker/bridge/device.h"

namespace stoker {

enum class LossKind : std::uint8_t {
    cross_entropy,         // CrossEntropyLoss; of each pixel or token, if there are several
    binary_cross_entropy,  // BCEWithLogitsLoss
    mse,                   // MSELoss
    l1,                    // L1Loss
    huber,                 // HuberLoss, delta 1
};

// A scalar with a gradient, the mean over the samples of `batch`; or a metric, one number or one for each sample. The
// outputs are float32 in training and in evaluation, and autocast is off.
using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const DeviceBatch& batch)>;

// Which loss, and its settings; by default cross entropy.
struct LossOptions {
    LossKind kind = LossKind::cross_entropy;
    double label_smoothing = 0;        // of cross entropy
    double focal_gamma = 0;            // cross entropy and binary cross entropy times (1 - p)^gamma; 0: off
    at::Tensor weight = {};            // (K): `weight` of cross entropy, `pos_weight` of binary cross entropy
    std::int64_t ignore_index = -100;  // classes that cross entropy leaves out
    LossFunction function = nullptr;   // a loss of your own, instead of all this

    // Cross entropy with nothing but label smoothing.
    bool plain() const {
        return kind == LossKind::cross_entropy && focal_gamma == 0 && !weight.defined() && function == nullptr;
    }
};

// Outputs as losses and metrics take them: float32 where they are floating point, as a pass under autocast may not be.
at::Tensor as_float(const at::Tensor& outputs);

// The mean loss, a scalar. Outputs and targets of
//   cross entropy         (N, K) with (N) int64 classes or (N, K) float32 probabilities; pixels (N, K, H, W) with
//                         (N, H, W); tokens (N, T, K) with (N, T)
//   binary cross entropy  (N, K) with (N, K) float32 of 0 and 1
//   mse, l1, huber        as many elements as the target (N, K) float32
at::Tensor compute_loss(const at::Tensor& outputs, const DeviceBatch& batch, const LossOptions& options);

// The same of each element, pixel or token, before the mean, in float32; 0 where a class is ignored. Only of losses
// without a function, smoothing, weights and gamma.
at::Tensor element_losses(const at::Tensor& outputs, const at::Tensor& target, const LossOptions& options);

}  // namespace stoker
