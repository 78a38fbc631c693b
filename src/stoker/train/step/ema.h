// A running average of a model's weights, which is often better than the weights themselves, and is what is evaluated.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

// average = decay * average + (1 - decay) * weight after each step, of parameters and of buffers of floats; other
// buffers are the model's.
class Ema {
  public:
    Ema(const Model& model, double decay);

    void update();
    // The model's state of now becomes the average's and the other way round; twice is nothing.
    void swap();

    // As a model's state: its names in its order.
    std::vector<NamedTensor> state() const;
    // Throws InvalidArgument where a name is missing or a shape differs.
    void load(const std::vector<NamedTensor>& state);

  private:
    std::vector<NamedTensor> model_;  // the model's own tensors
    std::vector<at::Tensor> average_;
    std::vector<at::Tensor> averaged_;  // of the model, those of floats
    std::vector<at::Tensor> floats_;    // of average_, the same
    double decay_;
};

// The averaged weights are the model's as long as this lives; null: nothing.
class AveragedWeights {
  public:
    explicit AveragedWeights(Ema* ema) : ema_(ema) { swap(); }
    AveragedWeights(const AveragedWeights&) = delete;
    AveragedWeights& operator=(const AveragedWeights&) = delete;
    ~AveragedWeights() { swap(); }

  private:
    void swap() {
        if (ema_ != nullptr) {
            ema_->swap();
        }
    }
    Ema* ema_;
};

}  // namespace stoker
