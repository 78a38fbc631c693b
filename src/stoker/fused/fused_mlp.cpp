// Divides a step's work among the members of a team. Large layers are divided by features, so each member keeps its
// rows of the weights in its core's cache; small last layers and the loss are divided by samples. There is a barrier
// only where a member reads what another wrote.
#include "stoker/fused/fused_mlp.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "stoker/base/error.h"
#include "stoker/fused/flush_denormals.h"
#include "stoker/fused/fused_kernels.h"

namespace stoker {
namespace {

// Inputs of a panel per block: 28 KB, which fits the smallest L1 caches.
constexpr int kDepth = 112;
// Weights (64 KB) that cost less to fetch from another core's cache than a division by features costs.
constexpr int kSmallLayer = 16384;

int share(int count, int member, int members) {
    return static_cast<int>(std::int64_t{count} * member / members);
}

// Calls body(panel, first column, columns) for the panels that contain samples [begin, end).
template <typename Body>
void for_panels(std::int64_t begin, std::int64_t end, const Body& body) {
    while (begin < end) {
        const std::int64_t panel = begin / kPanel;
        const std::int64_t stop = std::min(end, (panel + 1) * kPanel);
        body(panel, static_cast<int>(begin % kPanel), static_cast<int>(stop - begin));
        begin = stop;
    }
}

float* floats(Buffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
}

// Samples of one panel, the first a multiple of kGroup.
struct LossPanel {
    const float* outputs;  // (features, kPanel), at the first sample
    float* grads;          // (features, kPanel), of the mean loss; zeros beyond the samples
    int features;
    int samples;
    std::int64_t batch;  // samples in the batch
    double* losses;      // (samples)
};

// The loss of each sample and its gradient by the logits, softmax - target. With label smoothing e, as torch defines
// it, the target is (1 - e) * one_hot + e / classes.
void cross_entropy(const FusedKernels& kernels, const LossPanel& panel, const std::int64_t* label, double smoothing) {
    const double scale = 1.0 / static_cast<double>(panel.batch);
    const double share = smoothing / panel.features;
    SoftmaxSums sums;
    kernels.softmax(panel.outputs, panel.features, round_up_to_group(panel.samples), static_cast<float>(scale),
                    static_cast<float>(scale * share), panel.grads, sums);
    const auto hit = static_cast<float>(scale * (1 - smoothing));
    for (int s = 0; s < panel.samples; ++s) {
        const std::ptrdiff_t at = label[s] * kPanel + s;
        panel.grads[at] -= hit;
        const double log_sum = std::log(static_cast<double>(sums.exps[s])) + sums.highest[s];
        panel.losses[s] = log_sum - (1 - smoothing) * panel.outputs[at] - share * sums.logits[s];
    }
    for (int i = 0; i < panel.features; ++i) {
        std::fill(panel.grads + std::ptrdiff_t{i} * kPanel + panel.samples,
                  panel.grads + std::ptrdiff_t{i} * kPanel + round_up_to_group(panel.samples), 0.0f);
    }
}

// `number` counts the optimiser's steps from 1.
UpdateRule rule_at(const FusedOptimizer& optimizer, double lr, std::int64_t number) {
    const auto t = static_cast<double>(number);
    return rule_of(optimizer, lr, std::pow(optimizer.beta1, t), std::sqrt(1 - std::pow(optimizer.beta2, t)));
}

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
    throw InvalidArgument({.where = "FusedMlp", .expected = expected, .got = got});
}

void check_options(const FusedMlpOptions& options, std::span<const FusedLayer> layers) {
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

}  // namespace

struct FusedMlp::Layer {
    int inputs;
    int outputs;
    FusedLayer memory;
    Buffer values = {};       // (panels, outputs, kPanel), after the activation (last layer: logits)
    Buffer derivatives = {};  // the same shape, gelu only
    Buffer grads = {};        // the same shape, of the loss by the activation's input
    Buffer bias_grad = {};    // (outputs)

    // Floats from one panel to the next.
    std::ptrdiff_t panel() const { return std::ptrdiff_t{outputs} * kPanel; }
};

struct FusedMlp::Run {
    FusedBatch batch;
    std::size_t first_by_samples;
    UpdateRule rule;
};

struct FusedMlp::Share {
    int rows_begin;
    int rows_end;
    std::int64_t samples_begin;
    std::int64_t samples_end;
};

FusedMlp::FusedMlp(FusedMlpOptions options, std::span<const FusedLayer> layers, const FusedKernels& kernels)
    : options_(std::move(options)), kernels_(kernels), team_(options_.threads) {
    check_options(options_, layers);
    for (std::size_t l = 0; l < layers.size(); ++l) {
        layers_.push_back({.inputs = options_.widths[l], .outputs = options_.widths[l + 1], .memory = layers[l]});
    }
    scratch_.resize(static_cast<std::size_t>(team_.size()));
}

FusedMlp::~FusedMlp() = default;

void FusedMlp::allocate(std::int64_t samples) {
    const auto panels = static_cast<std::size_t>((samples + kPanel - 1) / kPanel);
    for (Layer& layer : layers_) {
        const std::size_t bytes = panels * static_cast<std::size_t>(layer.panel()) * sizeof(float);
        layer.values.resize(bytes);
        if (options_.activation == Activation::gelu) {
            layer.derivatives.resize(bytes);
        }
        layer.grads.resize(bytes);
        layer.bias_grad.resize(static_cast<std::size_t>(layer.outputs) * sizeof(float));
    }
    // A block of transposed inputs, or all samples of 64 features.
    const std::size_t depth = std::max<std::size_t>(kDepth, panels * kPanel);
    for (Buffer& buffer : scratch_) {
        buffer.resize(depth * kPanel * sizeof(float));
    }
    sample_losses_.resize(static_cast<std::size_t>(samples));
}

void FusedMlp::check(const FusedBatch& batch, std::int64_t number) const {
    if (batch.samples < 1 || batch.x == nullptr || batch.label == nullptr) {
        refuse("at least one sample with a label", std::to_string(batch.samples) + " samples");
    }
    if (number < 1) {
        refuse("steps counted from 1", std::to_string(number));
    }
    const int classes = options_.widths.back();
    for (std::int64_t s = 0; s < batch.samples; ++s) {
        if (batch.label[s] < 0 || batch.label[s] >= classes) {
            refuse("labels from 0 to " + std::to_string(classes - 1), std::to_string(batch.label[s]));
        }
    }
}

double FusedMlp::step(const FusedBatch& batch, double lr, std::int64_t number) {
    check(batch, number);
    allocate(batch.samples);
    const Run run{.batch = batch,
                  .first_by_samples = first_by_samples(batch.samples),
                  .rule = rule_at(options_.optimizer, lr, number)};
    team_.run([&](int member) {
        const FlushDenormals flush;
        forward_pass(run, member);
        loss(run, member);
        backward_pass(run, member);
        for (std::size_t l = layers_.size(); l-- > 0;) {
            layer_update(run, member, l);
        }
    });
    return std::accumulate(sample_losses_.begin(), sample_losses_.end(), 0.0);
}

// The first layer that is divided by samples: small last layers need no barriers that way.
std::size_t FusedMlp::first_by_samples(std::int64_t samples) const {
    std::size_t first = layers_.size() - 1;
    while (samples >= team_.size() * std::int64_t{kGroup} && first > 0 &&
           layers_[first - 1].inputs <= kSmallLayer / layers_[first - 1].outputs) {
        --first;
    }
    return first;
}

// A member's share: a part of `features` for all samples, or of the samples in whole groups.
FusedMlp::Share FusedMlp::share_of(const Run& run, bool by_samples, int features, int member) const {
    const std::int64_t samples = run.batch.samples;
    if (!by_samples) {
        return {share(features, member, team_.size()), share(features, member + 1, team_.size()), 0, samples};
    }
    const int groups = static_cast<int>((samples + kGroup - 1) / kGroup);
    const auto at = [&](int m) { return std::min(samples, share(groups, m, team_.size()) * std::int64_t{kGroup}); };
    return {0, features, at(member), at(member + 1)};
}

void FusedMlp::forward_pass(const Run& run, int member) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
        const bool by_samples = l >= run.first_by_samples;
        layer_forward(run, member, l, share_of(run, by_samples, layers_[l].outputs, member));
        if (!by_samples) {
            team_.barrier();
        }
    }
}

void FusedMlp::layer_forward(const Run& run, int member, std::size_t l, const Share& part) {
    Layer& layer = layers_[l];
    const int rows = part.rows_end - part.rows_begin;
    if (rows == 0) {
        return;
    }
    const int blocks = (layer.inputs + kDepth - 1) / kDepth;
    float* scratch = floats(scratch_[static_cast<std::size_t>(member)]);
    for_panels(part.samples_begin, part.samples_end, [&](std::int64_t panel, int column, int samples) {
        const int columns = round_up_to_group(samples);
        const std::ptrdiff_t at = panel * layer.panel() + std::ptrdiff_t{part.rows_begin} * kPanel + column;
        float* values = floats(layer.values) + at;
        for (int block = 0; block < blocks; ++block) {
            const int from = share(layer.inputs, block, blocks);
            const int depth = share(layer.inputs, block + 1, blocks) - from;
            const float* b = scratch;
            if (l == 0) {
                kernels_.transpose(run.batch.x + (panel * kPanel + column) * layer.inputs + from, layer.inputs, samples,
                                   depth, scratch);
            } else {
                b = floats(layers_[l - 1].values) + panel * layers_[l - 1].panel() + std::ptrdiff_t{from} * kPanel +
                    column;
            }
            kernels_.product({.a = layer.memory.weight + std::ptrdiff_t{part.rows_begin} * layer.inputs + from,
                              .a_row = layer.inputs,
                              .a_step = 1,
                              .b = b,
                              .b_stride = kPanel,
                              .rows = rows,
                              .columns = columns,
                              .depth = depth,
                              .begins = block == 0},
                             layer.memory.bias + part.rows_begin, values);
        }
        if (l + 1 < layers_.size()) {
            kernels_.activate(options_.activation, rows, columns, values,
                              options_.activation == Activation::gelu ? floats(layer.derivatives) + at : nullptr);
        }
    });
}

void FusedMlp::loss(const Run& run, int member) {
    Layer& layer = layers_.back();
    const Share part = share_of(run, true, layer.outputs, member);
    for_panels(part.samples_begin, part.samples_end, [&](std::int64_t panel, int column, int samples) {
        const std::int64_t first = panel * kPanel + column;
        const std::ptrdiff_t at = panel * layer.panel() + column;
        const LossPanel loss_panel{.outputs = floats(layer.values) + at,
                                   .grads = floats(layer.grads) + at,
                                   .features = layer.outputs,
                                   .samples = samples,
                                   .batch = run.batch.samples,
                                   .losses = sample_losses_.data() + first};
        cross_entropy(kernels_, loss_panel, run.batch.label + first, options_.label_smoothing);
    });
}

// d loss / d inputs of a layer = weight^T * grads, times the derivative of the activation below. Uses the weights
// before their update.
void FusedMlp::layer_backward(std::size_t l, const Share& part) {
    Layer& layer = layers_[l];
    Layer& below = layers_[l - 1];
    const int rows = part.rows_end - part.rows_begin;
    for_panels(part.samples_begin, part.samples_end, [&](std::int64_t panel, int column, int samples) {
        const int columns = round_up_to_group(samples);
        const std::ptrdiff_t at = panel * below.panel() + std::ptrdiff_t{part.rows_begin} * kPanel + column;
        float* grads = floats(below.grads) + at;
        const int blocks = (layer.outputs + kDepth - 1) / kDepth;
        for (int block = 0; block < blocks; ++block) {
            const int from = share(layer.outputs, block, blocks);
            kernels_.product({.a = layer.memory.weight + std::ptrdiff_t{from} * layer.inputs + part.rows_begin,
                              .a_row = 1,
                              .a_step = layer.inputs,
                              .b = floats(layer.grads) + panel * layer.panel() + std::ptrdiff_t{from} * kPanel + column,
                              .b_stride = kPanel,
                              .rows = rows,
                              .columns = columns,
                              .depth = share(layer.outputs, block + 1, blocks) - from,
                              .begins = block == 0},
                             nullptr, grads);
        }
        kernels_.multiply_by_derivative(
            options_.activation, rows, columns,
            floats(options_.activation == Activation::gelu ? below.derivatives : below.values) + at, grads);
    });
}

void FusedMlp::backward_pass(const Run& run, int member) {
    for (std::size_t l = layers_.size() - 1; l > 0; --l) {
        const bool by_samples = l >= run.first_by_samples;
        if (!by_samples) {
            team_.barrier();
        }
        layer_backward(l, share_of(run, by_samples, layers_[l].inputs, member));
    }
    team_.barrier();
}

void FusedMlp::layer_update(const Run& run, int member, std::size_t l) {
    Layer& layer = layers_[l];
    const int begin = share(layer.outputs, member, team_.size());
    const int rows = share(layer.outputs, member + 1, team_.size()) - begin;
    if (rows == 0) {
        return;
    }
    const auto samples = static_cast<int>(run.batch.samples);
    const float* grads = floats(layer.grads) + std::ptrdiff_t{begin} * kPanel;
    const FusedLayer& memory = layer.memory;
    const ParameterRows weights{memory.weight, memory.weight_first, memory.weight_second, layer.inputs};
    const ParameterRows biases{memory.bias, memory.bias_first, memory.bias_second, 0};
    // Columns of the batch that form whole groups are read in place, the others from a copy.
    const int direct = l == 0 ? layer.inputs / kGroup * kGroup : 0;
    for (int j = 0, columns = direct; j < layer.inputs; j += columns) {
        const std::ptrdiff_t at = std::ptrdiff_t{begin} * layer.inputs + j;
        const bool copied = j >= direct;
        columns = copied ? std::min(kPanel, layer.inputs - j) : direct;
        kernels_.product_update({.a = grads,
                                 .a_row = kPanel,
                                 .a_step = 1,
                                 .a_panel = layer.panel(),
                                 .b = copied ? copied_inputs(run, member, l, j, columns) : run.batch.x,
                                 .b_stride = copied ? kPanel : layer.inputs,
                                 .rows = rows,
                                 .columns = columns,
                                 .depth = samples},
                                run.rule, weights.offset_by(at));
    }
    float* bias_grad = floats(layer.bias_grad) + begin;
    kernels_.sample_sums(grads, layer.panel(), rows, run.batch.samples, bias_grad);
    kernels_.update(run.rule, rows, bias_grad, biases.offset_by(begin));
}

// `columns` columns of a layer's inputs from column j, at most kPanel, as (samples, kPanel).
const float* FusedMlp::copied_inputs(const Run& run, int member, std::size_t l, int j, int columns) {
    float* scratch = floats(scratch_[static_cast<std::size_t>(member)]);
    if (l > 0) {
        Layer& below = layers_[l - 1];
        for_panels(0, run.batch.samples, [&](std::int64_t panel, int /*column*/, int samples) {
            kernels_.transpose(floats(below.values) + panel * below.panel() + std::ptrdiff_t{j} * kPanel, kPanel,
                               columns, samples, scratch + panel * kPanel * kPanel);
        });
        return scratch;
    }
    const int inputs = layers_[0].inputs;
    for (std::int64_t s = 0; s < run.batch.samples; ++s) {
        float* row = scratch + s * kPanel;
        std::copy_n(run.batch.x + s * inputs + j, columns, row);
        std::fill_n(row + columns, kPanel - columns, 0.0f);
    }
    return scratch;
}

}  // namespace stoker
