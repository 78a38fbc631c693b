#include "stoker/train/step/scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "stoker/base/error.h"

namespace stoker {

Scaler::Scaler(const at::Device& device, const ScalerOptions& options)
    : options_(options),
      scale_(at::full({}, options.initial_scale, at::TensorOptions().dtype(at::kFloat).device(device))),
      growth_tracker_(at::zeros({}, at::TensorOptions().dtype(at::kInt).device(device))),
      found_inf_(at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

const at::Tensor& Scaler::unscale(std::vector<at::Tensor>& gradients) {
    const c10::NoGradGuard no_grad;
    found_inf_.zero_();
    // In double, as in PyTorch: 1 / scale may be too small for a float.
    const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
    return found_inf_;
}

void Scaler::update() {
    const c10::NoGradGuard no_grad;
    if (scales()) {
        at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor, options_.backoff_factor,
                               options_.growth_interval);
    }
}

std::vector<NamedTensor> Scaler::state() const {
    return scales() ? std::vector<NamedTensor>{{"scaler.scale", scale_}, {"scaler.growth_tracker", growth_tracker_}}
                    : std::vector<NamedTensor>();
}

void Scaler::load(const std::vector<NamedTensor>& given) {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : state()) {
        const auto found = std::ranges::find(given, name, &NamedTensor::name);
        if (found == given.end() || found->tensor.dim() != 0) {
            throw InvalidArgument({.where = "checkpoint", .expected = name + ", a scalar", .got = "none"});
        }
        tensor.copy_(found->tensor);
    }
}

}  // namespace stoker
