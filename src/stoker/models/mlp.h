// A multi-layer perceptron with one activation between its layers: fc1, fc2, ... as nn.Linear names them. Its steps
// are so short that autograd's bookkeeping would be a third of them, so it writes its own gradients.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class Mlp final : public Model {
  public:
    // `inputs` is what a sample has once flattened.
    Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, Activation activation,
        at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;

    // The same values as Model's own, through autograd, within rounding. Under autocast, for smoothed or soft labels,
    // with another activation than ReLU, where a parameter is frozen or autograd is asked for, it is Model's own.
    at::Tensor loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options = {}) override;
    void backward(const at::Tensor& loss, const at::Tensor& gradient = {}) override;
    // Null where a parameter is frozen.
    const LinearChain* linear_chain() const override { return all_train() ? &chain_ : nullptr; }

  private:
    // A layer's memory of a training step, kept from one to the next.
    struct Kept {
        at::Tensor output = {};       // (N, out), after ReLU but for the last layer
        at::Tensor output_grad = {};  // (N, out)
        at::Tensor weight_grad = {};  // (out, in)
        at::Tensor bias_grad = {};    // (out)
    };
    bool all_train() const;
    void prepare(const at::Tensor& input);
    void add_gradients(std::size_t layer, const at::Tensor& input);

    LinearChain chain_;
    std::vector<Kept> kept_;        // of each layer
    at::Tensor input_;              // (N, inputs) of the last loss
    at::Tensor label_;              // (N)
    at::Tensor minus_one_;          // (N, 1)
    at::Tensor log_probabilities_;  // (N, classes)
};

}  // namespace stoker
