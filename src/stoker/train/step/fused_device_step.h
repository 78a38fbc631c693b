// A training step of a small mlp on a GPU in a few kernels (fused/mlp_cuda/fused_mlp_cuda.h): as separate operations it
// takes as long as their launches.
#pragma once

#include <utility>

#include "stoker/train/step/fused_layers.h"

namespace stoker {

class FusedDeviceStep {
  public:
    explicit FusedDeviceStep(FusedLayers layers) : layers_(std::move(layers)) {}

    // False for batches that separate kernels do as fast.
    bool takes(std::int64_t samples) const;

    // Queues forward, backward and update, and the mean loss of the batch before it into `mean`, a float32 scalar. Can
    // be captured in a graph. `lr`: the optimiser's, a float32 scalar.
    void run(const DeviceBatch& batch, const at::Tensor& lr, const at::Tensor& mean) const;

  private:
    FusedLayers layers_;
};

}  // namespace stoker
