// A training step in one pass for chains of fully connected layers in float32 on the CPU: fused/'s step, working on the
// tensors of the model and the optimiser.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stoker/train/step/fused_layers.h"

namespace stoker {

class FusedStep {
  public:
    // Empty where model, device, optimiser or loss do not support it.
    static std::optional<FusedStep> make(const Model& model, const Optimizer& optimizer, const at::Device& device,
                                         const LossOptions& loss);

    // Returns the mean loss of the batch before the update.
    double run(const DeviceBatch& batch, double lr);

  private:
    explicit FusedStep(FusedLayers layers) : layers_(std::move(layers)) {}

    FusedLayers layers_;
    std::vector<FusedLayer> memory_ = {};  // of mlp_
    int most_threads_ = 0;                 // LibTorch's, when mlp_ was made
    std::unique_ptr<FusedMlp> mlp_;        // made at the first step, which gives the batch size
};

}  // namespace stoker
