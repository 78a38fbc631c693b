// Loss scaling for fp16 as in torch.amp.GradScaler, without waiting for the device. The loss is multiplied by a scale
// so that small gradients do not vanish; a step whose gradients overflow is skipped and halves the scale.
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
    Scaler() = default;  // scales nothing
    explicit Scaler(const at::Device& device, const ScalerOptions& options = {});

    bool scales() const { return scale_.defined(); }
    const at::Tensor& scale() const { return scale_; }  // float32 scalar on the device

    // Divides the gradients by the scale. Returns 1 if any of them is infinite or NaN, else 0: a float32 scalar on the
    // device, for Optimizer::step.
    const at::Tensor& unscale(std::vector<at::Tensor>& gradients);
    // Computes the scale of the next step; called after `unscale`.
    void update();

    // What `unscale` and `update` read and write, for a CUDA graph.
    std::vector<at::Tensor> tensors() const { return {scale_, growth_tracker_, found_inf_}; }
    // "scaler.scale" and "scaler.growth_tracker", for a checkpoint.
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
