// mlp_forward_kernel for each large layer; then mlp_tail_kernel, which takes a sample through the last, small layers,
// the loss and back; mlp_backward_kernel for each large layer but the first; mlp_update_kernel for all weights.
#include "stoker/fused/mlp_cuda/fused_mlp_cuda.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "stoker/fused/mlp_cuda/mlp_kernels.h"

namespace stoker {
namespace {

constexpr double kMaxFlops = 1.1e9;  // longer steps are bound by arithmetic; LibTorch may use tensor cores

constexpr int blocks_of(std::int64_t count, int each) {
    return static_cast<int>((count + each - 1) / each);
}

// The shared memory of a tail that begins at layer `first`.
MlpTailPlan plan_tail(const FusedMlpOptions& options, std::size_t first) {
    MlpTailPlan plan{};
    const auto take = [&](int floats) { return std::exchange(plan.floats, plan.floats + floats); };
    int widest = 0;
    for (std::size_t l = first; l + 1 < options.widths.size(); ++l) {
        const int inputs = options.widths[l];
        const int outputs = options.widths[l + 1];
        MlpTailPlace& place = plan.layers[l - first];
        place.weights = take(outputs * mlp_tail_stride(inputs));
        place.bias = take(outputs);
        place.x = take(inputs);
        place.from = options.activation == Activation::gelu ? take(inputs) : place.x;
        widest = std::max(widest, outputs);
    }
    plan.logits = take(options.widths.back());
    plan.grads[0] = take(widest);
    plan.grads[1] = take(widest);
    return plan;
}

bool fits_tail(const FusedMlpOptions& options, std::size_t first) {
    const std::int64_t weights = std::int64_t{options.widths[first]} * options.widths[first + 1];
    return weights <= kMlpTailFloats && plan_tail(options, first).floats <= kMlpTailFloats;
}

// The first of the last layers that fit into a block's shared memory; the number of layers if not even the last one
// does.
std::size_t first_of_tail(const FusedMlpOptions& options) {
    std::size_t first = options.widths.size() - 1;
    while (first > 0 && fits_tail(options, first - 1)) {
        --first;
    }
    return first;
}

// The parts of the workspace.
struct Workspace {
    double* losses;
    UpdateRule* rule;
    float* values;  // of all layers
};

// So that each part begins at a multiple of 16 bytes.
constexpr std::int64_t whole_vectors(std::int64_t floats) {
    return (floats + 3) / 4 * 4;
}

constexpr std::int64_t kRuleFloats = 32;
static_assert(sizeof(UpdateRule) <= kRuleFloats * sizeof(float));

Workspace workspace_of(float* memory, std::int64_t samples) {
    return {.losses = reinterpret_cast<double*>(memory),
            .rule = reinterpret_cast<UpdateRule*>(memory + whole_vectors(2 * samples)),
            .values = memory + whole_vectors(2 * samples) + kRuleFloats};
}

std::vector<MlpPass> passes_of(const FusedMlpOptions& options, std::span<const FusedMlpCudaLayer> layers,
                               const FusedMlpCudaStep& step) {
    std::vector<MlpPass> passes;
    float* free = workspace_of(step.workspace, step.batch.samples).values;
    const auto take = [&](int features) {
        float* const taken = free;
        free += whole_vectors(step.batch.samples * features);
        return taken;
    };
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const int outputs = options.widths[l + 1];
        passes.push_back({.x = l == 0 ? step.batch.x : passes.back().values,
                          .weight = layers[l].memory.weight,
                          .bias = layers[l].memory.bias,
                          .values = take(outputs),
                          .derivatives = options.activation == Activation::gelu ? take(outputs) : nullptr,
                          .grads = take(outputs),
                          .inputs = options.widths[l],
                          .outputs = outputs});
    }
    return passes;
}

bool aligned(const void* memory) {
    return memory == nullptr || reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

MlpTail tail_of(const FusedMlpOptions& options, const FusedMlpCudaLayer& layer, const FusedMlpCudaStep& step,
                std::span<const MlpPass> passes, std::size_t first) {
    const Workspace workspace = workspace_of(step.workspace, step.batch.samples);
    MlpTail tail{.layers = {},
                 .plan = plan_tail(options, first),
                 .count = static_cast<int>(passes.size() - first),
                 .below_derivatives = first > 0 ? passes[first - 1].derivatives : nullptr,
                 .below_grads = first > 0 ? passes[first - 1].grads : nullptr,
                 .label = step.batch.label,
                 .losses = workspace.losses,
                 .samples = static_cast<int>(step.batch.samples),
                 .activation = options.activation,
                 .smoothing = options.label_smoothing,
                 .optimizer = options.optimizer,
                 .lr = step.lr,
                 .steps = layer.weight_steps,
                 .rule = workspace.rule};
    std::ranges::copy(passes.subspan(first), tail.layers);
    return tail;
}

UpdateRule::Kind kind_of(const FusedOptimizer& optimizer) {
    return rule_of(optimizer, 0, 0, 1).kind;
}

// Returns the update and how many blocks it takes.
std::pair<MlpUpdate, int> update_of(const FusedMlpOptions& options, std::span<const FusedMlpCudaLayer> layers,
                                    const FusedMlpCudaStep& step, std::span<const MlpPass> passes) {
    const Workspace workspace = workspace_of(step.workspace, step.batch.samples);
    MlpUpdate update{.layers = {},
                     .count = static_cast<int>(passes.size()),
                     .samples = static_cast<int>(step.batch.samples),
                     .kind = kind_of(options.optimizer),
                     .rule = workspace.rule,
                     .losses = workspace.losses,
                     .mean_loss = step.mean_loss};
    int blocks = 0;
    for (std::size_t l = 0; l < passes.size(); ++l) {
        const MlpPass& pass = passes[l];
        const FusedLayer& memory = layers[l].memory;
        const int column_blocks = blocks_of(pass.inputs, kMlpUpdateColumns);
        update.layers[l] = {.x = pass.x,
                            .grads = pass.grads,
                            .layer = layers[l],
                            .inputs = pass.inputs,
                            .outputs = pass.outputs,
                            .first_block = blocks,
                            .column_blocks = column_blocks,
                            .aligned_x = pass.inputs % 4 == 0 && aligned(pass.x) && aligned(memory.weight) &&
                                         aligned(memory.weight_first) && aligned(memory.weight_second),
                            .aligned_grads = pass.outputs % 4 == 0 && aligned(pass.grads)};
        blocks += column_blocks * blocks_of(pass.outputs, kMlpUpdateRows);
    }
    return {update, blocks};
}

}  // namespace

std::string why_no_fused_mlp_cuda(const FusedMlpOptions& options, std::int64_t samples) {
    const std::size_t layers = options.widths.size() - 1;
    double flops = 0;
    for (std::size_t l = 0; l < layers; ++l) {
        flops += 6.0 * options.widths[l] * options.widths[l + 1] * static_cast<double>(samples);
    }
    if (layers > kMlpLayers || first_of_tail(options) == layers) {
        return "the fused step of an mlp on a GPU has at most " + std::to_string(kMlpLayers) +
               " layers, and a last one of some 10,000 weights";
    }
    if (flops > kMaxFlops) {
        return "this mlp's step is long enough for separate kernels";
    }
    return mlp_layers_cuda_work() && mlp_tail_cuda_works() && mlp_update_cuda_works()
               ? ""
               : "this build has no kernels for this GPU";
}

std::int64_t fused_mlp_cuda_workspace(const FusedMlpOptions& options, std::int64_t samples) {
    std::int64_t floats = whole_vectors(2 * samples) + kRuleFloats;
    for (std::size_t l = 1; l < options.widths.size(); ++l) {
        floats += (options.activation == Activation::gelu ? 3 : 2) * whole_vectors(samples * options.widths[l]);
    }
    return floats;
}

void fused_mlp_step_cuda(const FusedMlpOptions& options, std::span<const FusedMlpCudaLayer> layers,
                         const FusedMlpCudaStep& step, void* stream) {
    const std::vector<MlpPass> passes = passes_of(options, layers, step);
    const int samples = static_cast<int>(step.batch.samples);
    const std::size_t first = first_of_tail(options);
    for (const MlpPass& layer : std::span(passes).first(first)) {
        launch_mlp_forward({.layer = layer,
                            .samples = samples,
                            .activation = options.activation,
                            .aligned = layer.inputs % 4 == 0 && aligned(layer.x) && aligned(layer.weight)},
                           stream);
    }
    launch_mlp_tail(tail_of(options, layers[0], step, passes, first), stream);
    for (std::size_t l = first; l-- > 1;) {
        launch_mlp_backward(
            {.layer = passes[l],
             .below_from = options.activation == Activation::gelu ? passes[l - 1].derivatives : passes[l - 1].values,
             .below_grads = passes[l - 1].grads,
             .samples = samples,
             .activation = options.activation},
            stream);
    }
    const auto [update, blocks] = update_of(options, layers, step, passes);
    launch_mlp_update(update, blocks, stream);
}

}  // namespace stoker
