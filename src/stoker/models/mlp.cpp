// The forward pass in ATen calls; autograd computes the gradients. See fused/ for the fused training step.
#include "stoker/models/mlp.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
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

std::string layer_name(std::size_t layer) {
    return "fc" + std::to_string(layer + 1);
}

// Pairs of layers for tensor parallelism; a last layer without a second one is in none.
bool begins_pair(std::size_t layer, std::size_t layers) {
    return layer % 2 == 0 && layer + 1 < layers;
}

bool ends_pair(std::size_t layer) {
    return layer % 2 == 1;
}

}  // namespace

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, Activation activation,
         at::Generator& generator) {
    chain_.activation = activation;
    std::vector<std::int64_t> widths = hidden;
    widths.push_back(classes);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string name = layer_name(i);
        const at::Tensor weight = parameter(name + ".weight", default_uniform({widths[i], inputs}, inputs, generator));
        const at::Tensor bias = parameter(name + ".bias", default_uniform({widths[i]}, inputs, generator));
        chain_.layers.push_back({.weight = weight, .bias = bias});
        inputs = widths[i];
    }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t layer = 0; layer < chain_.layers.size(); ++layer) {
        x = run(layer, x);
    }
    return x;  // (N, classes)
}

// Returns (N, width), or with tensor parallelism inside a pair this rank's part of it.
at::Tensor Mlp::run(std::size_t layer, const at::Tensor& input) const {
    const std::size_t layers = chain_.layers.size();
    const TensorRanks* const ranks = tensor_ranks();
    at::Tensor x = layer == 0 ? input.flatten(1) : input;  // (N, inputs)
    if (ranks != nullptr && begins_pair(layer, layers)) {
        x = to_all_ranks(x, *ranks);
    }
    const auto& [weight, bias] = chain_.layers[layer];
    x = row_linear(x, weight, bias, ends_pair(layer) ? ranks : nullptr);
    return layer + 1 < layers ? activate(chain_.activation, x) : x;
}

std::vector<ModelBlock> Mlp::blocks() const {
    std::vector<ModelBlock> all;
    for (std::size_t layer = 0; layer < chain_.layers.size(); ++layer) {
        all.push_back({.name = layer_name(layer),
                       .tensors = {layer_name(layer) + ".*"},
                       .forward = [this, layer](const at::Tensor& x) { return run(layer, x); }});
    }
    return all;
}

std::vector<DividedParameter> Mlp::division(int ranks) const {
    std::vector<DividedParameter> divided;
    const std::size_t layers = chain_.layers.size();
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string name = layer_name(i);
        if (begins_pair(i, layers)) {
            const std::int64_t width = chain_.layers[i].bias.size(0);
            if (width % ranks != 0) {
                throw InvalidArgument({.where = "train.mesh.tp",
                                       .expected = "a divisor of every other width of model.hidden, from the first",
                                       .got = fmt::format("{}, and a layer of {}", ranks, width),
                                       .hint = "change model.hidden or train.mesh.tp"});
            }
            divided.push_back({.name = name + ".weight"});
            divided.push_back({.name = name + ".bias"});
        } else if (ends_pair(i)) {
            divided.push_back({.name = name + ".weight", .dim = 1});
        }
    }
    if (divided.empty()) {
        throw InvalidArgument({.where = "train.mesh.tp",
                               .expected = "1 for an mlp without hidden layers",
                               .got = fmt::to_string(ranks),
                               .hint = "set model.hidden or train.mesh.tp"});
    }
    return divided;
}

const LinearChain* Mlp::linear_chain() const {
    const bool all_train = std::ranges::all_of(chain_.layers, [](const LinearChain::Layer& layer) {
        return layer.weight.requires_grad() && layer.bias.requires_grad();
    });
    return all_train && divided().empty() && !is_stage() ? &chain_ : nullptr;
}

}  // namespace stoker
