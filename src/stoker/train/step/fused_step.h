// fused/'s training step over a model's and an optimiser's own memory: what the parts of step.h do one after the other,
// in one pass, where the model is a chain of fully connected layers in float32 on the CPU.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/fused/fused_mlp.h"
#include "stoker/models/model.h"
#include "stoker/train/step/optimizer.h"

namespace stoker {

class FusedStep {
  public:
    // Empty where the model, the device or the optimiser is not made for it.
    static std::optional<FusedStep> make(const Model& model, const Optimizer& optimizer, const at::Device& device,
                                         const LossOptions& loss);

    // Returns the mean loss of the batch before the update.
    double run(const DeviceBatch& batch, double lr);

  private:
    // A parameter, and what the optimiser keeps of it; undefined where it does not.
    struct Trained {
        at::Tensor value;
        at::Tensor first = {};   // exp_avg or momentum_buffer
        at::Tensor second = {};  // exp_avg_sq
        at::Tensor steps = {};   // scalar
    };
    struct Layer {
        Trained weight;  // (out, in)
        Trained bias;    // (out)
        FusedLayer memory() const;
    };

    FusedStep(std::vector<Layer> layers, FusedMlpOptions options)
        : layers_(std::move(layers)), options_(std::move(options)) {}
    static Trained trained(const at::Tensor& parameter, const Model& model, const Optimizer& optimizer);

    std::vector<Layer> layers_;
    FusedMlpOptions options_;
    std::vector<FusedLayer> memory_ = {};  // that mlp_ works on
    std::unique_ptr<FusedMlp> mlp_;        // made at the first step, for its number of samples
};

}  // namespace stoker
