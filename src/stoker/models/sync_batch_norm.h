// Batch norm over the batches of all ranks (torch.nn.SyncBatchNorm): mean and variance in the forward pass, and two
// sums in the backward pass, are those of the whole batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace stoker {

struct BatchNorm;  // batch_norm_relu.h

// Sums a contiguous tensor over the ranks, in place. All ranks call it for the same layers in the same order.
using SumOverRanks = std::function<void(const at::Tensor&)>;

// Training only. `x` is (N, C, H, W), this rank's part of the batch, which may be empty (N = 0) but not on all ranks.
// Only first derivatives are supported: the backward pass throws Unsupported under create_graph.
at::Tensor sync_batch_norm(const at::Tensor& x, const BatchNorm& norm, const SumOverRanks& sum, bool update_running);

}  // namespace stoker
