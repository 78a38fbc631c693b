// A training step in one pass for chains of fully connected layers in float32 on the CPU: fused/'s step, working on the
// tensors of the model and the optimiser.
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
    // Empty where model, device, optimiser or loss do not support it.
    static std::optional<FusedStep> make(const Model& model, const Optimizer& optimizer, const at::Device& device,
                                         const LossOptions& loss);

    // Returns the mean loss of the batch before the update.
    double run(const DeviceBatch& batch, double lr);

  private:
    // A parameter and its state in the optimiser; undefined where the optimiser has none.
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
    std::vector<FusedLayer> memory_ = {};  // of mlp_
    std::unique_ptr<FusedMlp> mlp_;        // made at the first step, which gives the batch size
};

}  // namespace stoker
