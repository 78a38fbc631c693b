// The optimiser's state keeps its names and meaning, so a run may switch between this step and the eager one.
#include "stoker/train/step/fused_step.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"

namespace stoker {
namespace {

// Multiplications and additions for which a thread pays off: about 50 us of work between two barriers.
constexpr double kFlopsPerThread = 8e6;

float* floats(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

// A frozen parameter has no state, or does not require a gradient.
template <typename Trained>
bool usable(const Trained& parameter) {
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

int threads_for(const std::vector<int>& widths, std::int64_t samples) {
    double flops = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
        flops += 6.0 * widths[l] * widths[l + 1] * static_cast<double>(samples);
    }
    return std::clamp(static_cast<int>(flops / kFlopsPerThread), 1, at::get_num_threads());
}

}  // namespace

FusedLayer FusedStep::Layer::memory() const {
    return {.weight = floats(weight.value),
            .bias = floats(bias.value),
            .weight_first = floats(weight.first),
            .bias_first = floats(bias.first),
            .weight_second = floats(weight.second),
            .bias_second = floats(bias.second)};
}

FusedStep::Trained FusedStep::trained(const at::Tensor& parameter, const Model& model, const Optimizer& optimizer) {
    const auto own =
        std::ranges::find_if(model.parameters(), [&](const auto& p) { return p.tensor.is_same(parameter); });
    Trained found{.value = parameter};
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

std::optional<FusedStep> FusedStep::make(const Model& model, const Optimizer& optimizer, const at::Device& device,
                                         const LossOptions& loss) {
    const LinearChain* chain = model.linear_chain();
    const OptimizerRecipe& recipe = optimizer.recipe();
    const bool one_decay = recipe.weight_decay == 0 || recipe.no_decay.empty();
    if (chain == nullptr || !loss.plain() || !device.is_cpu() || optimizer.kernel() != OptimizerKernel::fused ||
        !one_decay) {
        return std::nullopt;
    }
    std::vector<Layer> layers;
    std::vector<int> widths = {static_cast<int>(chain->layers.front().weight.size(1))};
    for (const auto& [weight, bias] : chain->layers) {
        layers.push_back({trained(weight, model, optimizer), trained(bias, model, optimizer)});
        const Layer& layer = layers.back();
        if (!usable(layer.weight) || !usable(layer.bias)) {
            return std::nullopt;
        }
        widths.push_back(static_cast<int>(weight.size(0)));
    }
    return FusedStep(std::move(layers), {.widths = std::move(widths),
                                         .activation = chain->activation,
                                         .label_smoothing = loss.label_smoothing,
                                         .optimizer = fused_optimizer(recipe)});
}

double FusedStep::run(const DeviceBatch& batch, double lr) {
    const std::int64_t samples = batch.size();
    std::vector<FusedLayer> memory;
    for (const Layer& layer : layers_) {
        memory.push_back(layer.memory());
    }
    if (mlp_ == nullptr || memory != memory_) {  // a parameter has got other memory
        options_.threads = threads_for(options_.widths, samples);
        mlp_ = std::make_unique<FusedMlp>(options_, memory);
        memory_ = std::move(memory);
    }
    const at::Tensor input = pixels_of(batch.input, batch.late, at::kFloat);
    const at::Tensor x = input.flatten(1).contiguous();  // (N, inputs)
    const at::Tensor label = batch.target.contiguous();  // (N)
    if (x.size(1) != options_.widths.front()) {
        throw InvalidArgument(
            {.where = "data",
             .expected = std::to_string(options_.widths.front()) + " values a sample, as the model takes",
             .got = std::to_string(x.size(1))});
    }
    const float done = *layers_.front().weight.steps.const_data_ptr<float>();
    const double sum =
        mlp_->step({.x = x.const_data_ptr<float>(), .label = label.const_data_ptr<std::int64_t>(), .samples = samples},
                   lr, static_cast<std::int64_t>(done) + 1);
    for (const Layer& layer : layers_) {
        *floats(layer.weight.steps) += 1;
        *floats(layer.bias.steps) += 1;
    }
    return sum / static_cast<double>(samples);
}

}  // namespace stoker
