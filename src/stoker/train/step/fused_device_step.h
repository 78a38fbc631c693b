// A training step of a small mlp on a GPU in a few kernels (fused/mlp_cuda/fused_mlp_cuda.h): as separate operations it
// takes as long as their launches.
#pragma once

#include <optional>
#include <utility>

#include "stoker/train/step/fused_layers.h"

namespace stoker {

class FusedDeviceStep {
  public:
    // Empty where model, device, optimiser or loss do not support it.
    static std::optional<FusedDeviceStep> make(const Model& model, const Optimizer& optimizer, const at::Device& device,
                                               const LossOptions& loss);

    // False for batches that separate kernels do as fast.
    bool takes(std::int64_t samples) const;

    // Queues forward, backward and update, and the mean loss of the batch before it into `mean`, a float32 scalar. Can
    // be captured in a graph. `lr`: the optimiser's, a float32 scalar.
    void run(const DeviceBatch& batch, const at::Tensor& lr, const at::Tensor& mean) const;

  private:
    explicit FusedDeviceStep(FusedLayers layers) : layers_(std::move(layers)) {}

    FusedLayers layers_;
};

}  // namespace stoker
