// A training step in one pass for chains of fully connected layers in float32 on the CPU: fused/'s step, working on the
// tensors of the model and the optimiser.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stoker/train/step/fused_layers.h"
#include "stoker/train/step/step.h"

namespace stoker {

class FusedStep final : public Step {
  public:
    FusedStep(const StepParts& parts, FusedLayers layers) : Step(parts), layers_(std::move(layers)) {}

    std::string compiled() const override { return "fused"; }

  private:
    void train(const DeviceBatch& batch, double lr, std::int64_t samples) override;

    FusedLayers layers_;
    std::vector<FusedLayer> memory_ = {};  // of mlp_
    int most_threads_ = 0;                 // LibTorch's, when mlp_ was made
    std::unique_ptr<FusedMlp> mlp_;        // made at the first step, which gives the batch size
};

}  // namespace stoker
