// The reference: an MLP's training step in double precision, as torch defines it. Its gradients are checked against
// finite differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/fused/fused_mlp.h"

namespace stoker::testing {

template <typename T>
struct LayerMemory {
    std::vector<T> weight, bias, weight_first, bias_first, weight_second, bias_second;
};

template <typename T>
using Memory = std::vector<LayerMemory<T>>;

// The vectors of a layer, parameters first.
template <typename T>
std::vector<std::vector<T>*> parts(LayerMemory<T>& layer) {
    return {&layer.weight,     &layer.bias,          &layer.weight_first,
            &layer.bias_first, &layer.weight_second, &layer.bias_second};
}

struct Samples {
    std::vector<float> x;             // (samples, inputs)
    std::vector<std::int64_t> label;  // (samples)
    std::int64_t count;

    FusedBatch batch() const { return {.x = x.data(), .label = label.data(), .samples = count}; }
};

inline std::vector<float> random_values(std::size_t count, float spread, Rng& rng) {
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return spread * (2 * rng.uniform() - 1); });
    return values;
}

inline Memory<float> random_memory(const std::vector<int>& widths, Rng& rng) {
    Memory<float> memory;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
        const auto in = static_cast<std::size_t>(widths[l]);
        const auto out = static_cast<std::size_t>(widths[l + 1]);
        const float spread = 1.5f / std::sqrt(static_cast<float>(in));
        memory.push_back({.weight = random_values(in * out, spread, rng),
                          .bias = random_values(out, spread, rng),
                          .weight_first = std::vector<float>(in * out),
                          .bias_first = std::vector<float>(out),
                          .weight_second = std::vector<float>(in * out),
                          .bias_second = std::vector<float>(out)});
    }
    return memory;
}

inline Samples random_samples(const std::vector<int>& widths, std::int64_t count, Rng& rng) {
    const auto n = static_cast<std::size_t>(count);
    Samples samples{.x = random_values(n * static_cast<std::size_t>(widths.front()), 1.5f, rng),
                    .label = std::vector<std::int64_t>(n),
                    .count = count};
    std::ranges::generate(samples.label,
                          [&] { return std::int64_t{rng.below(static_cast<std::uint32_t>(widths.back()))}; });
    return samples;
}

inline std::vector<FusedLayer> layers_of(Memory<float>& memory) {
    std::vector<FusedLayer> layers;
    for (auto& m : memory) {
        layers.push_back({.weight = m.weight.data(),
                          .bias = m.bias.data(),
                          .weight_first = m.weight_first.data(),
                          .bias_first = m.bias_first.data(),
                          .weight_second = m.weight_second.data(),
                          .bias_second = m.bias_second.data()});
    }
    return layers;
}

inline Memory<double> in_double(Memory<float> memory) {
    Memory<double> result(memory.size());
    for (std::size_t l = 0; l < memory.size(); ++l) {
        const auto from = parts(memory[l]);
        const auto to = parts(result[l]);
        for (std::size_t i = 0; i < from.size(); ++i) {
            to[i]->assign(from[i]->begin(), from[i]->end());
        }
    }
    return result;
}

// ---- the step ----

inline double activated(Activation activation, double z) {
    switch (activation) {
        case Activation::relu:
            return std::max(z, 0.0);
        case Activation::tanh:
            return std::tanh(z);
        case Activation::gelu:
            return z * 0.5 * std::erfc(-z / std::numbers::sqrt2);
    }
    return 0;
}

inline double slope(Activation activation, double z) {
    switch (activation) {
        case Activation::relu:
            return z > 0 ? 1 : 0;
        case Activation::tanh:
            return 1 - std::tanh(z) * std::tanh(z);
        case Activation::gelu:
            return 0.5 * std::erfc(-z / std::numbers::sqrt2) +
                   z * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    }
    return 0;
}

// The forward pass of one sample: each layer's output before its activation.
inline std::vector<std::vector<double>> sums_of(const FusedMlpOptions& options, const Memory<double>& memory,
                                                std::vector<double> x) {
    std::vector<std::vector<double>> sums;
    for (std::size_t l = 0; l < memory.size(); ++l) {
        std::vector<double> z = memory[l].bias;
        for (std::size_t o = 0; o < z.size(); ++o) {
            for (std::size_t i = 0; i < x.size(); ++i) {
                z[o] += memory[l].weight[o * x.size() + i] * x[i];
            }
        }
        sums.push_back(z);
        x = z;
        std::ranges::for_each(x, [&](double& value) { value = activated(options.activation, value); });
    }
    return sums;
}

inline std::vector<double> input_of(const Samples& samples, std::int64_t s, std::size_t inputs) {
    const auto begin = samples.x.begin() + s * static_cast<std::ptrdiff_t>(inputs);
    return {begin, begin + static_cast<std::ptrdiff_t>(inputs)};
}

// A sample's loss, and its gradient by the outputs.
inline double loss_of(const FusedMlpOptions& options, const Samples& samples, std::int64_t s,
                      const std::vector<double>& z, std::vector<double>& grad) {
    const auto count = static_cast<double>(z.size());
    double loss = 0;
    double exps = 0;
    std::ranges::for_each(z, [&](double value) { exps += std::exp(value); });
    for (std::size_t i = 0; i < z.size(); ++i) {
        const double hit = static_cast<std::int64_t>(i) == samples.label[static_cast<std::size_t>(s)] ? 1 : 0;
        const double wanted = (1 - options.label_smoothing) * hit + options.label_smoothing / count;
        loss -= wanted * (z[i] - std::log(exps));
        grad[i] = std::exp(z[i]) / exps - wanted;
    }
    return loss;
}

inline double loss_sum(const FusedMlpOptions& options, const Memory<double>& memory, const Samples& samples) {
    double sum = 0;
    for (std::int64_t s = 0; s < samples.count; ++s) {
        const auto z =
            sums_of(options, memory, input_of(samples, s, static_cast<std::size_t>(options.widths[0]))).back();
        std::vector<double> grad(z.size());
        sum += loss_of(options, samples, s, z, grad);
    }
    return sum;
}

// d mean loss / d weight and bias.
inline Memory<double> gradients(const FusedMlpOptions& options, const Memory<double>& memory, const Samples& samples) {
    Memory<double> grads(memory.size());
    for (std::size_t l = 0; l < memory.size(); ++l) {
        grads[l].weight.resize(memory[l].weight.size());
        grads[l].bias.resize(memory[l].bias.size());
    }
    for (std::int64_t s = 0; s < samples.count; ++s) {
        const auto x = input_of(samples, s, static_cast<std::size_t>(options.widths[0]));
        const auto sums = sums_of(options, memory, x);
        std::vector<double> grad(sums.back().size());
        loss_of(options, samples, s, sums.back(), grad);
        for (std::size_t l = memory.size(); l-- > 0;) {
            const auto in = static_cast<std::size_t>(options.widths[l]);
            std::vector<double> below(in);
            for (std::size_t o = 0; o < grad.size(); ++o) {
                grads[l].bias[o] += grad[o] / static_cast<double>(samples.count);
                for (std::size_t i = 0; i < in; ++i) {
                    const double value = l == 0 ? x[i] : activated(options.activation, sums[l - 1][i]);
                    grads[l].weight[o * in + i] += grad[o] * value / static_cast<double>(samples.count);
                    below[i] += grad[o] * memory[l].weight[o * in + i];
                }
            }
            for (std::size_t i = 0; l > 0 && i < in; ++i) {
                below[i] *= slope(options.activation, sums[l - 1][i]);
            }
            grad = below;
        }
    }
    return grads;
}

// torch.optim's update of one value.
inline void update(const FusedOptimizer& o, double lr, std::int64_t number, double g, double& w, double& first,
                   double& second) {
    const auto t = static_cast<double>(number);
    if (o.kind == FusedOptimizer::Kind::adamw) {
        w -= lr * o.weight_decay * w;
    } else {
        g += o.weight_decay * w;
    }
    if (o.kind == FusedOptimizer::Kind::sgd) {
        if (o.momentum != 0) {
            first = o.momentum * first + g;
            g = o.nesterov ? g + o.momentum * first : first;
        }
        w -= lr * g;
        return;
    }
    first = o.beta1 * first + (1 - o.beta1) * g;
    second = o.beta2 * second + (1 - o.beta2) * g * g;
    const double denominator = std::sqrt(second) / std::sqrt(1 - std::pow(o.beta2, t)) + o.eps;
    w -= lr / (1 - std::pow(o.beta1, t)) * first / denominator;
}

inline double reference_step(const FusedMlpOptions& options, Memory<double>& memory, const Samples& samples, double lr,
                             std::int64_t number) {
    const double loss = loss_sum(options, memory, samples);
    Memory<double> grads = gradients(options, memory, samples);
    for (std::size_t l = 0; l < memory.size(); ++l) {
        auto& m = memory[l];
        for (std::size_t i = 0; i < m.weight.size(); ++i) {
            update(options.optimizer, lr, number, grads[l].weight[i], m.weight[i], m.weight_first[i],
                   m.weight_second[i]);
        }
        for (std::size_t i = 0; i < m.bias.size(); ++i) {
            update(options.optimizer, lr, number, grads[l].bias[i], m.bias[i], m.bias_first[i], m.bias_second[i]);
        }
    }
    return loss;
}

}  // namespace stoker::testing
