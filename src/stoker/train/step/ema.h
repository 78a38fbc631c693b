// An exponential moving average of a model's weights, which is evaluated and saved as well.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

// After each step: average = decay * average + (1 - decay) * weight, for parameters and floating-point buffers. Other
// buffers are the model's.
class Ema {
  public:
    Ema() = default;  // averages nothing
    Ema(const Model& model, double decay) : Ema(model.state(), decay) {}
    // The same of such tensors as FullyShardedModel::state.
    Ema(const std::vector<NamedTensor>& state, double decay);

    bool averages() const { return !average_.empty(); }
    void update();
    // Exchanges the model's weights and the average. Calling it twice changes nothing.
    void swap();

    // With the names and in the order of the state.
    std::vector<NamedTensor> state() const;
    // Throws InvalidArgument where a name is missing or a shape differs.
    void load(const std::vector<NamedTensor>& state);

  private:
    std::vector<NamedTensor> model_;  // the model's own tensors
    std::vector<at::Tensor> average_;
    std::vector<at::Tensor> model_floats_;  // the floating-point tensors of model_
    std::vector<at::Tensor> floats_;        // those of average_
    double decay_ = 0;
};

// Gives the model the averaged weights for the lifetime of this object.
class AveragedWeights {
  public:
    explicit AveragedWeights(Ema& ema) : ema_(ema) { ema_.swap(); }
    AveragedWeights(const AveragedWeights&) = delete;
    AveragedWeights& operator=(const AveragedWeights&) = delete;
    ~AveragedWeights() { ema_.swap(); }

  private:
    Ema& ema_;
};

}  // namespace stoker
