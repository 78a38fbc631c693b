// Straight ATen calls; autograd records them.
#include "stoker/models/mlp.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include "stoker/models/init.h"

namespace stoker {

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes,
         at::Generator& generator) {
    std::vector<std::int64_t> widths = hidden;
    widths.push_back(classes);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string name = "fc" + std::to_string(i + 1);
        const at::Tensor weight =
            parameter(name + ".weight", default_uniform({widths[i], inputs}, inputs, generator));
        const at::Tensor bias = parameter(name + ".bias", default_uniform({widths[i]}, inputs, generator));
        layers_.push_back({weight, bias});
        inputs = widths[i];
    }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
    at::Tensor x = input.flatten(1);  // (N, inputs)
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        x = at::linear(x, layers_[i].weight, layers_[i].bias);
        if (i + 1 < layers_.size()) {
            x = at::relu(x);
        }
    }
    return x;  // (N, classes)
}

}  // namespace stoker
