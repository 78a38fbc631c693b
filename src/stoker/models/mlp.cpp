// The forward pass in ATen calls; autograd computes the gradients. See fused/ for the fused training step.
#include "stoker/models/mlp.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include <algorithm>

#include "stoker/models/init.h"

namespace stoker {
namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
    switch (activation) {
        case Activation::gelu:
            return at::gelu(x);
        case Activation::tanh:
            return at::tanh(x);
        case Activation::relu:
            break;
    }
    return at::relu(x);
}

}  // namespace

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, Activation activation,
         at::Generator& generator) {
    chain_.activation = activation;
    std::vector<std::int64_t> widths = hidden;
    widths.push_back(classes);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string name = "fc" + std::to_string(i + 1);
        const at::Tensor weight = parameter(name + ".weight", default_uniform({widths[i], inputs}, inputs, generator));
        const at::Tensor bias = parameter(name + ".bias", default_uniform({widths[i]}, inputs, generator));
        chain_.layers.push_back({.weight = weight, .bias = bias});
        inputs = widths[i];
    }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
    at::Tensor x = input.flatten(1);  // (N, inputs)
    for (const auto& [weight, bias] : chain_.layers) {
        x = at::linear(x, weight, bias);
        if (!weight.is_same(chain_.layers.back().weight)) {
            x = activate(chain_.activation, x);
        }
    }
    return x;  // (N, classes)
}

const LinearChain* Mlp::linear_chain() const {
    const bool all_train = std::ranges::all_of(chain_.layers, [](const LinearChain::Layer& layer) {
        return layer.weight.requires_grad() && layer.bias.requires_grad();
    });
    return all_train ? &chain_ : nullptr;
}

}  // namespace stoker
