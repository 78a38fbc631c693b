// A training step of a small mlp on a GPU in a few kernels (fused/mlp_cuda/fused_mlp_cuda.h): as separate operations it
// takes as long as their launches. Can be captured in a graph.
#pragma once

#include <utility>

#include "stoker/train/step/eager_step.h"
#include "stoker/train/step/fused_layers.h"

namespace stoker {

// Eager for batches that separate kernels do as fast, and once memory has split batches.
class FusedDeviceStep final : public RetryingStep {
  public:
    FusedDeviceStep(const std::shared_ptr<StepContext>& context, FusedLayers layers, std::string why)
        : RetryingStep(context, std::move(why)), layers_(std::move(layers)) {}

  protected:
    bool run_fused(const DeviceBatch& batch, const at::Tensor& mean) override;

  private:
    bool takes(std::int64_t samples) const;
    void queue(const DeviceBatch& batch, const at::Tensor& mean) const;

    FusedLayers layers_;
};

}  // namespace stoker
