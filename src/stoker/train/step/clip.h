// Gradient clipping on the device, without waiting for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/train/step/divided_gradients.h"

namespace stoker {

// torch.nn.utils.clip_grad_norm_: scales all gradients by max_norm / (norm + 1e-6) where that is below 1. Returns the
// total norm before scaling, a float32 scalar on their device. Slices and stages count with those of the other ranks.
at::Tensor clip_norm(std::vector<at::Tensor>& gradients, double max_norm, const DividedGradients& divided = {});

// torch.nn.utils.clip_grad_value_: clamps each element to [-limit, limit].
void clip_value(std::vector<at::Tensor>& gradients, double limit);

}  // namespace stoker
