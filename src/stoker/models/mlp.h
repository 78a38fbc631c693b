// A multi-layer perceptron with one activation between its layers, fc1, fc2, ... On a CPU its whole training step can
// run fused (fused/fused_mlp.h), without LibTorch's operators.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class Mlp final : public Model {
  public:
    // `inputs` is the number of values of a flattened sample.
    Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, Activation activation,
        at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    bool casts_input() const override { return true; }

    // Pairs of layers: the first of a pair divides its outputs, the second its inputs. A last layer without a second
    // one is whole on every rank.
    std::vector<DividedParameter> division(int ranks) const override;

    // The layers, each with the activation after it.
    std::vector<ModelBlock> blocks() const override;

    // Null if a parameter is frozen, divided or in another stage: the fused step trains all of them.
    const LinearChain* linear_chain() const override;

  private:
    at::Tensor run(std::size_t layer, const at::Tensor& x) const;

    LinearChain chain_;
};

}  // namespace stoker
