// Batch norm with what follows it in a convolutional network: relu(batch_norm(x) + shortcut). In training on a GPU this
// is one autograd node on the kernels of models/kernels/batch_norm_cuda.h; elsewhere it is LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "stoker/models/sync_batch_norm.h"

namespace stoker {

// The defaults of torch.nn.BatchNorm2d.
inline constexpr double kBatchNormMomentum = 0.1;
inline constexpr double kBatchNormEps = 1e-5;

// The tensors of torch.nn.BatchNorm2d, each (C) float32.
struct BatchNorm {
    at::Tensor gamma, beta;
    at::Tensor running_mean, running_var;
};

struct BatchNormOptions {
    bool training = true;
    bool update_running = true;  // running_mean and running_var, in training
    bool relu = false;
    const SumOverRanks* sum = nullptr;  // in training: statistics of all ranks' batches
};

// `x` and `shortcut` are (N, C, H, W); `shortcut` may be undefined. Neither input changes. The fused node has only
// first derivatives: its backward pass throws Unsupported under create_graph.
at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNorm& norm, const at::Tensor& shortcut,
                           const BatchNormOptions& options);

// The same by LibTorch's operations on every device.
at::Tensor batch_norm_relu_reference(const at::Tensor& x, const BatchNorm& norm, const at::Tensor& shortcut,
                                     const BatchNormOptions& options);

}  // namespace stoker
