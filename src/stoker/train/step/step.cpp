// The parts that all kinds of step share, and the choice among them.
#include "stoker/train/step/step.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/train/step/fused_device_step.h"
#include "stoker/train/step/fused_step.h"
#include "stoker/train/step/graph_step.h"

namespace stoker {
namespace {

// Why a step cannot be a CUDA graph; empty where it can.
std::string why_no_graph(const StepOptions& options, const Optimizer& optimizer, const at::Device& device) {
    if (!options.compile) {
        return "train.compile is none";
    }
    if (!device.is_cuda()) {
        return "on a CPU only an mlp has a fused step";
    }
    if (optimizer.kernel() != OptimizerKernel::fused) {
        return "the optimizer reads its state on the host";
    }
    return "";
}

// Why the step of an mlp cannot be fused; empty where the options allow it. Autocast allows 16-bit types and does not
// ask for them: a GPU computes so short a step in float32.
std::string why_not_fused(const StepOptions& options, const at::Device& device) {
    if ((options.precision.autocast && device.is_cpu()) || options.precision.loss_scaling) {
        return "the fused step of an mlp computes in float32";
    }
    if (options.accumulate != 1) {
        return "the fused step of an mlp does not split batches (train.accumulate)";
    }
    if (options.clip_norm != 0 || options.clip_value != 0) {
        return "the fused step of an mlp does not clip gradients (train.clip_norm, train.clip_value)";
    }
    if (!options.loss.plain()) {
        return "the fused step of an mlp is for classification with plain cross entropy";
    }
    if (options.soft_targets) {
        return "the fused step of an mlp takes one class for each image (train.mixup, train.cutmix)";
    }
    return "";
}

std::unique_ptr<Step> make_step_of_one(const std::shared_ptr<StepContext>& context) {
    const StepOptions& options = context->options;
    const at::Device device = context->device;
    std::string why = why_no_graph(options, context->optimizer, device);
    std::optional<FusedLayers> layers;
    if (const std::string why_not = why_not_fused(options, device); options.compile) {
        layers = why_not.empty() ? fused_layers(context->model, context->optimizer, options.loss) : std::nullopt;
        if (device.is_cpu() && context->model.linear_chain() != nullptr) {
            why = !why_not.empty() ? why_not
                                   : "the fused step of an mlp updates all parameters alike (model.freeze, "
                                     "optimizer.no_decay, optimizer.lr_scales)";
        }
    }
    if (layers && device.is_cpu()) {
        return std::make_unique<FusedStep>(context, std::move(*layers));
    }
    std::unique_ptr<DeviceGraphs> graphs;
    if (why.empty()) {
        try {
            graphs = torch_cuda().make_graphs(device);
        } catch (const Unsupported& error) {
            why = error.what();
        }
    }
    auto eager = layers && device.is_cuda() ? std::make_unique<FusedDeviceStep>(context, std::move(*layers), why)
                                            : std::make_unique<RetryingStep>(context, why);
    if (graphs != nullptr) {
        return std::make_unique<GraphStep>(std::move(eager), std::move(graphs));
    }
    return eager;
}

}  // namespace

std::unique_ptr<Step> make_step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device,
                                const StepOptions& options, const StepRanks& given) {
    StepRanks ranks = given;
    if (ranks.tensor != nullptr && ranks.tensor->alone()) {
        ranks.tensor = nullptr;
    }
    const auto context = std::make_shared<StepContext>(model, optimizer, account, device, options, ranks);
    if (ranks.tensor != nullptr) {
        model.require_autograd();
    }
    const bool alone = context->data.group() == nullptr && ranks.tensor == nullptr && !ranks.stage && !ranks.full;
    if (alone) {
        return make_step_of_one(context);
    }
    return std::make_unique<EagerStep>(context, make_passes(*context, ranks),
                                       options.compile ? "several processes train one model" : "train.compile is none");
}

Step::Step(std::shared_ptr<StepContext> context) : context_(std::move(context)) {}

void Step::run(const DeviceBatch& batch, double lr) {
    if (context_->data.group() != nullptr) {
        throw InvalidArgument({.where = "Step::run",
                               .expected = "the size of the batch over all ranks as the third argument",
                               .got = "none",
                               .hint = "loader.batch_sampler().samples(batch.number()) is that"});
    }
    run(batch, lr, batch.size());
}

void Step::run(const DeviceBatch& batch, double lr, std::int64_t samples) {
    context_->losses.begin();
    context_->intact = false;
    train(batch, lr, samples);
    context_->intact = true;
}

bool Step::intact() const {
    return context_->intact;
}

std::vector<double> Step::take_losses() {
    return context_->losses.take();
}

std::optional<double> Step::loss_on_host() const {
    return context_->losses.on_host();
}

at::Tensor Step::last_loss() const {
    return context_->losses.last();
}

const Optimizer& Step::optimizer() const {
    return context_->optimizer;
}

Ema& Step::ema() {
    return context_->ema;
}

const Scaler& Step::scaler() const {
    return context_->scaler;
}

std::int64_t Step::accumulate() const {
    return context_->micro_batches.accumulate();
}

void Step::accumulate_at_least(std::int64_t parts, std::int64_t samples) {
    context_->micro_batches.at_least(parts, samples);
}

std::vector<at::Tensor> Step::memory() const {
    std::vector<at::Tensor> all = context_->optimizer.tensors();
    for (const auto& tensors : {context_->model.state(), context_->ema.state()}) {
        std::ranges::transform(tensors, std::back_inserter(all), &NamedTensor::tensor);
    }
    std::ranges::move(context_->model.constants(), std::back_inserter(all));
    std::ranges::move(context_->scaler.tensors(), std::back_inserter(all));
    return all;
}

StepState Step::state() const {
    return {.optimizer = context_->optimizer.state(), .scaler = context_->scaler.state(), .ema = context_->ema.state()};
}

void Step::load(const StepState& state) {
    std::vector<NamedTensor> optimizer;
    std::vector<NamedTensor> scaler = state.scaler;
    std::ranges::partition_copy(state.optimizer, std::back_inserter(scaler), std::back_inserter(optimizer),
                                [](const NamedTensor& entry) { return entry.name.starts_with("scaler."); });
    context_->optimizer.load(optimizer);
    if (context_->scaler.scales() == scaler.empty()) {  // "auto" depends on the device
        throw InvalidArgument({.where = "train.precision",
                               .expected = scaler.empty() ? "one without loss scaling, as the run began with"
                                                          : "fp16 with loss scaling, as the run began with",
                               .got = scaler.empty() ? "fp16" : "one without loss scaling",
                               .hint = scaler.empty() ? "set train.precision to what it was: bf16, tf32 or fp32"
                                                      : "set train.precision = \"fp16\""});
    }
    if (const bool averages = context_->ema.averages(); averages == state.ema.empty()) {
        throw InvalidArgument({.where = "train.ema",
                               .expected = averages ? "none, as when the run began" : "what the run began with",
                               .got = averages ? "another" : "none",
                               .hint = "resume with the recipe that the run began with"});
    }
    context_->scaler.load(scaler);
    context_->ema.load(state.ema);
}

}  // namespace stoker
