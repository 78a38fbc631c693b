// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): a block of layers keeps
// only its input, and the backward pass computes the activations again. LibTorch has this only in Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace stoker {

// The forward pass of a block. It runs twice, the second time with `recompute` = true; then it must not change any
// state, such as running statistics. It must not draw random numbers.
using BlockForward = std::function<at::Tensor(const at::Tensor& input, bool recompute)>;

// Returns block(input, false); if gradients are recorded, the activations are not kept. `parameters` are all parameters
// of the block. Everything that `block` refers to must live until the backward pass, which recomputes under the
// autocast settings of this call.
at::Tensor gradient_checkpoint(const BlockForward& block, const at::Tensor& input,
                               const std::vector<at::Tensor>& parameters);

}  // namespace stoker
