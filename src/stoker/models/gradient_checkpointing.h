// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): of a block of layers
// only the input is kept; the backward pass computes the activations again. LibTorch has this in Python alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace stoker {

// What a block does with its input. It runs twice; `again` is true the second time, when whatever else a forward pass
// changes, such as running statistics, must stay as it is. It must draw nothing at random.
using BlockPass = std::function<at::Tensor(const at::Tensor& input, bool again)>;

// pass(input, false), without keeping activations where gradients are recorded. `parameters` are all that the block
// has. What `pass` refers to must live until the backward pass, which computes again under the autocast of now.
at::Tensor gradient_checkpoint(const BlockPass& pass, const at::Tensor& input,
                               const std::vector<at::Tensor>& parameters);

}  // namespace stoker
