// The factors of torch.optim's formulas that all weights share, computed in double precision.
#include "stoker/fused/fused_setup.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "stoker/base/error.h"

namespace stoker {

UpdateRule rule_of(const FusedOptimizer& optimizer, double lr, std::int64_t number) {
    const auto f = [](double value) { return static_cast<float>(value); };
    const bool decoupled = optimizer.kind == FusedOptimizer::Kind::adamw;
    const float l2 = decoupled ? 0.0f : f(optimizer.weight_decay);
    if (optimizer.kind == FusedOptimizer::Kind::sgd) {
        return {.kind = optimizer.momentum != 0 ? UpdateRule::Kind::momentum : UpdateRule::Kind::sgd,
                .step = f(-lr),
                .l2 = l2,
                .momentum = f(optimizer.momentum),
                .from_grad = optimizer.nesterov ? 1.0f : 0.0f,
                .from_buffer = optimizer.nesterov ? f(optimizer.momentum) : 1.0f};
    }
    const auto t = static_cast<double>(number);
    return {.kind = UpdateRule::Kind::adam,
            .step = f(-lr / (1 - std::pow(optimizer.beta1, t))),
            .keep = decoupled ? f(1 - lr * optimizer.weight_decay) : 1.0f,
            .l2 = l2,
            .beta2 = f(optimizer.beta2),
            .rest1 = f(1 - optimizer.beta1),
            .rest2 = f(1 - optimizer.beta2),
            .root_scale = f(1 / std::sqrt(1 - std::pow(optimizer.beta2, t))),
            .eps = f(optimizer.eps)};
}

void check_options(const FusedMlpOptions& options, std::span<const FusedLayer> layers) {
    const auto refuse = [](const std::string& expected, const std::string& got) {
        throw InvalidArgument({.where = "FusedMlp", .expected = expected, .got = got});
    };
    const auto& widths = options.widths;
    if (widths.size() < 2 || std::ranges::min(widths) < 1) {
        refuse("widths of at least 1, for inputs, hidden layers and outputs",
               std::to_string(widths.size()) + " widths");
    }
    if (layers.size() + 1 != widths.size()) {
        refuse(std::to_string(widths.size() - 1) + " layers", std::to_string(layers.size()));
    }
    if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
        refuse("a label smoothing in [0, 1)", std::to_string(options.label_smoothing));
    }
    const auto& optimizer = options.optimizer;
    const bool is_adam = optimizer.kind != FusedOptimizer::Kind::sgd;
    for (const FusedLayer& layer : layers) {
        const bool first = layer.weight_first != nullptr && layer.bias_first != nullptr;
        const bool second = layer.weight_second != nullptr && layer.bias_second != nullptr;
        if (layer.weight == nullptr || layer.bias == nullptr || ((is_adam || optimizer.momentum != 0) && !first) ||
            (is_adam && !second)) {
            refuse("memory for weight, bias and the optimizer's state in each layer", "null");
        }
    }
}

}  // namespace stoker
