// ATen's foreach kernels need a few launches for all parameters.
#include "stoker/train/step/clip.h"

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

namespace stoker {

at::Tensor clip_norm(std::vector<at::Tensor>& gradients, double max_norm, const DividedGradients& divided) {
    const c10::NoGradGuard no_grad;
    at::Tensor norms = at::stack(at::_foreach_norm(gradients, 2));  // (gradients)
    if (!divided.places.empty()) {
        const at::Tensor places = at::tensor(divided.places, norms.options().dtype(at::kLong));
        const at::Tensor squares = norms.index_select(0, places).square();  // sums of each rank's slices
        divided.sum(squares);
        norms.index_copy_(0, places, squares.sqrt());
    }
    at::Tensor norm = at::linalg_vector_norm(norms, 2);
    if (divided.sum_parts) {
        const at::Tensor square = norm.square();
        divided.sum_parts(square);
        norm = square.sqrt();
    }
    at::_foreach_mul_(gradients, norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0));
    return norm;
}

void clip_value(std::vector<at::Tensor>& gradients, double limit) {
    const c10::NoGradGuard no_grad;
    at::_foreach_clamp_min_(gradients, -limit);
    at::_foreach_clamp_max_(gradients, limit);
}

}  // namespace stoker
