// A multi-layer perceptron with ReLU between its layers: fc1, fc2, ... as nn.Linear names them. Its steps
// are so short that autograd's bookkeeping would be a third of them, so it writes its own gradients.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class Mlp final : public Model {
  public:
    // `inputs` is what a sample has once flattened.
    Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;

    // The same values as Model's own, through autograd, within rounding. Under autocast, and for smoothed labels, it is
    // Model's own.
    at::Tensor loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options = {}) override;
    void backward(const at::Tensor& loss, const at::Tensor& gradient = {}) override;

  private:
    struct Linear {
        at::Tensor weight;  // (out, in)
        at::Tensor bias;    // (out)
        // Memory of a training step, kept from one to the next.
        at::Tensor output = {};       // (N, out), after ReLU but for the last layer
        at::Tensor output_grad = {};  // (N, out)
        at::Tensor weight_grad = {};  // (out, in)
        at::Tensor bias_grad = {};    // (out)
    };
    void prepare(const at::Tensor& input);
    void add_gradients(Linear& layer, const at::Tensor& input);

    std::vector<Linear> layers_;
    at::Tensor input_;              // (N, inputs) of the last loss
    at::Tensor label_;              // (N)
    at::Tensor minus_one_;          // (N, 1)
    at::Tensor log_probabilities_;  // (N, classes)
};

}  // namespace stoker
