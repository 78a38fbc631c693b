// A multi-layer perceptron with ReLU between its layers: fc1, fc2, ... as nn.Linear names them.
#pragma once

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class Mlp final : public Model {
  public:
    // `inputs` is what a sample has once flattened.
    Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;

  private:
    struct Linear {
        at::Tensor weight;  // (out, in)
        at::Tensor bias;    // (out)
    };
    std::vector<Linear> layers_;
};

}  // namespace stoker
