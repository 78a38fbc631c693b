// Loss scaling for fp16, as torch.amp.GradScaler does it, without a wait: small gradients would vanish in fp16, so the
// loss is multiplied by a scale, and a step whose gradients overflowed is left out and halves it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

struct ScalerOptions {
    double initial_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;  // steps without an overflow before the scale grows
};

class Scaler {
  public:
    explicit Scaler(const at::Device& device, const ScalerOptions& options = {});

    const at::Tensor& scale() const { return scale_; }  // float32 scalar on the device

    // Takes the scale off the gradients and finds out, on the device, whether any is infinite or NaN: 1 or 0, a float32
    // scalar that the optimiser takes.
    const at::Tensor& unscale(std::vector<at::Tensor>& gradients);
    // The scale of the next step, after `unscale`.
    void update();

    std::vector<at::Tensor> memory() const { return {scale_, growth_tracker_, found_inf_}; }
    // "scaler.scale", "scaler.growth_tracker": what a checkpoint keeps.
    std::vector<NamedTensor> state() const;
    // Throws InvalidArgument where one of them is missing.
    void load(const std::vector<NamedTensor>& state);

  private:
    ScalerOptions options_;
    at::Tensor scale_;
    at::Tensor growth_tracker_;  // int32 scalar: steps since the last overflow or growth
    at::Tensor found_inf_;       // float32 scalar
};

}  // namespace stoker
