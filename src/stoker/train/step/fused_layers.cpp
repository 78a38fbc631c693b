// The optimiser's state keeps its names and meaning, so a run may switch between a fused step and the eager one.
#include "stoker/train/step/fused_layers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"

namespace stoker {
namespace {

float* floats(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

// A frozen parameter lacks state, or does not require a gradient.
bool usable(const FusedParameter& parameter) {
    const at::Tensor& value = parameter.value;
    return parameter.steps.defined() && value.requires_grad() && value.scalar_type() == at::kFloat &&
           value.is_contiguous();
}

FusedOptimizer fused_optimizer(const OptimizerRecipe& recipe) {
    using Kind = FusedOptimizer::Kind;
    return {.kind = recipe.name == "sgd"    ? Kind::sgd
                    : recipe.name == "adam" ? Kind::adam
                                            : Kind::adamw,
            .momentum = recipe.momentum,
            .nesterov = recipe.nesterov,
            .beta1 = recipe.beta1,
            .beta2 = recipe.beta2,
            .eps = recipe.eps,
            .weight_decay = recipe.weight_decay};
}

FusedParameter with_state(const at::Tensor& parameter, const Model& model, const Optimizer& optimizer) {
    const auto own =
        std::ranges::find_if(model.parameters(), [&](const auto& p) { return p.tensor.is_same(parameter); });
    FusedParameter found{.value = parameter};
    for (const auto& [name, tensor] : optimizer.state()) {
        if (name == "step." + own->name) {
            found.steps = tensor;
        } else if (name == "exp_avg_sq." + own->name) {
            found.second = tensor;
        } else if (name == "exp_avg." + own->name || name == "momentum_buffer." + own->name) {
            found.first = tensor;
        }
    }
    return found;
}

}  // namespace

FusedLayer FusedLayerTensors::memory() const {
    return {.weight = floats(weight.value),
            .bias = floats(bias.value),
            .weight_first = floats(weight.first),
            .bias_first = floats(bias.first),
            .weight_second = floats(weight.second),
            .bias_second = floats(bias.second)};
}

std::optional<FusedLayers> fused_layers(const Model& model, const Optimizer& optimizer, const LossOptions& loss) {
    const LinearChain* chain = model.linear_chain();
    const OptimizerRecipe& recipe = optimizer.recipe();
    const bool all_alike = recipe.lr_scales.empty() && (recipe.weight_decay == 0 || recipe.no_decay.empty());
    if (chain == nullptr || !loss.plain() || optimizer.kernel() != OptimizerKernel::fused || !all_alike) {
        return std::nullopt;
    }
    FusedLayers found{.layers = {},
                      .options = {.widths = {static_cast<int>(chain->layers.front().weight.size(1))},
                                  .activation = chain->activation,
                                  .label_smoothing = loss.label_smoothing,
                                  .optimizer = fused_optimizer(recipe)}};
    for (const auto& [weight, bias] : chain->layers) {
        found.layers.push_back({with_state(weight, model, optimizer), with_state(bias, model, optimizer)});
        if (!usable(found.layers.back().weight) || !usable(found.layers.back().bias)) {
            return std::nullopt;
        }
        found.options.widths.push_back(static_cast<int>(weight.size(0)));
    }
    return found;
}

at::Tensor fused_input(const DeviceBatch& batch, int inputs) {
    const at::Tensor x = pixels_of(batch.input, batch.late, at::kFloat).flatten(1).contiguous();
    if (x.size(1) != inputs) {
        throw InvalidArgument({.where = "data",
                               .expected = std::to_string(inputs) + " values a sample, as the model takes",
                               .got = std::to_string(x.size(1))});
    }
    return x;
}

}  // namespace stoker
