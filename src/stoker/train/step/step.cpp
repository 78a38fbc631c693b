// The parts that all kinds of step share, and the choice among them.
#include "stoker/train/step/step.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/train/step/fused_step.h"
#include "stoker/train/step/graph_step.h"

namespace stoker {
namespace {

constexpr std::int64_t kOnDevice = 256;  // losses, before they are fetched unasked

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

// For one process.
std::unique_ptr<Step> make_step_alone(const StepParts& parts) {
    std::string why = why_no_graph(parts.options, parts.optimizer, parts.device);
    std::optional<FusedLayers> layers;
    if (parts.options.compile) {
        const std::string why_not = why_not_fused(parts.options, parts.device);
        layers = why_not.empty() ? fused_layers(parts.model, parts.optimizer, parts.options.loss) : std::nullopt;
        if (parts.device.is_cpu() && parts.model.linear_chain() != nullptr) {
            why = !why_not.empty() ? why_not
                                   : "the fused step of an mlp updates all parameters alike (model.freeze, "
                                     "optimizer.no_decay, optimizer.lr_scales)";
        }
    }
    if (layers && parts.device.is_cpu()) {
        return std::make_unique<FusedStep>(parts, std::move(*layers));
    }
    std::unique_ptr<DeviceGraphs> graphs;
    if (why.empty()) {
        try {
            graphs = torch_cuda().make_graphs(parts.device);
        } catch (const Unsupported& error) {
            why = error.what();
        }
    }
    std::optional<FusedDeviceStep> kernels;
    if (layers && parts.device.is_cuda()) {
        kernels.emplace(std::move(*layers));
    }
    auto eager = std::make_unique<RetryingStep>(parts, std::move(why), std::move(kernels));
    if (graphs != nullptr) {
        return std::make_unique<GraphStep>(std::move(*eager), std::move(graphs));
    }
    return eager;
}

}  // namespace

std::unique_ptr<Step> make_step(StepParts parts) {
    for (const Group** group : {&parts.ranks.data, &parts.ranks.tensor}) {
        if (*group != nullptr && (*group)->alone()) {
            *group = nullptr;
        }
    }
    const Group* const data = parts.ranks.data;
    const Group* const tensor = parts.ranks.tensor;
    parts.model.sync_batch_norm(nullptr);  // of an earlier group
    if (data != nullptr && parts.options.sync_batch_norm) {
        parts.model.sync_batch_norm([data](const at::Tensor& values) { data->all_reduce(values); });
    }
    if (data != nullptr || tensor != nullptr) {
        parts.model.require_autograd();
    }
    if (!parts.replicas.empty()) {
        return make_replicated_step(parts);
    }
    return data != nullptr || tensor != nullptr || parts.ranks.stage ? make_rank_step(parts) : make_step_alone(parts);
}

Step::Step(const StepParts& parts)
    : model_(parts.model),
      optimizer_(parts.optimizer),
      account_(parts.account),
      device_(parts.device),
      options_(parts.options),
      ranks_(parts.ranks),
      losses_(at::zeros({kOnDevice}, at::TensorOptions().dtype(at::kFloat).device(device_))) {
    if (options_.precision.loss_scaling) {
        scaler_ = Scaler(device_, options_.scaler);
    }
    if (options_.ema > 0) {
        ema_ = Ema(ranks_.full != nullptr ? ranks_.full->state() : model_.state(), options_.ema);
    }
}

void Step::run(const DeviceBatch& batch, double lr) {
    if (ranks_.data != nullptr) {
        throw InvalidArgument({.where = "Step::run",
                               .expected = "the size of the batch over all ranks as the third argument",
                               .got = "none",
                               .hint = "loader.batch_sampler().samples(batch.number()) is that"});
    }
    run(batch, lr, batch.size());
}

void Step::run(const DeviceBatch& batch, double lr, std::int64_t samples) {
    if (on_device_ == kOnDevice) {
        fetch_losses();
    }
    last_ = on_device_;
    intact_ = false;
    train(batch, lr, samples);
    intact_ = true;
    ++on_device_;
}

std::vector<at::Tensor> Step::memory() const {
    std::vector<at::Tensor> all = optimizer_.tensors();
    for (const auto& tensors : {model_.state(), ema_.state()}) {
        std::ranges::transform(tensors, std::back_inserter(all), &NamedTensor::tensor);
    }
    std::ranges::move(model_.constants(), std::back_inserter(all));
    if (scaler_.scales()) {
        std::ranges::move(scaler_.tensors(), std::back_inserter(all));
    }
    return all;
}

std::vector<NamedTensor> Step::optimizer_state() const {
    std::vector<NamedTensor> state = optimizer_.state();
    std::ranges::move(scaler_.state(), std::back_inserter(state));
    return state;
}

void Step::load(const std::vector<NamedTensor>& optimizer, const std::vector<NamedTensor>& ema) {
    std::vector<NamedTensor> of_optimizer;
    std::vector<NamedTensor> scaler;
    std::ranges::partition_copy(optimizer, std::back_inserter(scaler), std::back_inserter(of_optimizer),
                                [](const NamedTensor& entry) { return entry.name.starts_with("scaler."); });
    optimizer_.load(of_optimizer);
    if (scaler_.scales() == scaler.empty()) {  // "auto" depends on the device
        throw InvalidArgument({.where = "train.precision",
                               .expected = scaler.empty() ? "one without loss scaling, as the run began with"
                                                          : "fp16 with loss scaling, as the run began with",
                               .got = scaler.empty() ? "fp16" : "one without loss scaling",
                               .hint = scaler.empty() ? "set train.precision to what it was: bf16, tf32 or fp32"
                                                      : "set train.precision = \"fp16\""});
    }
    if (ema_.averages() == ema.empty()) {
        throw InvalidArgument(
            {.where = "train.ema",
             .expected = ema.empty() ? "none, as when the run began" : "the averages that the run began with",
             .got = ema.empty() ? "another" : "none",
             .hint = "resume with the recipe that the run began with"});
    }
    scaler_.load(scaler);
    ema_.load(ema);
}

void Step::fetch_losses() {
    const at::Tensor values = losses_.narrow(0, 0, on_device_).to(at::kCPU, at::kDouble);
    const double* first = values.const_data_ptr<double>();
    fetched_.insert(fetched_.end(), first, first + on_device_);
    on_device_ = 0;
}

std::optional<double> Step::loss_on_host() const {
    return device_.is_cpu() && on_device_ > 0 ? std::optional<double>(losses_.const_data_ptr<float>()[on_device_ - 1])
                                              : std::nullopt;
}

std::vector<double> Step::take_losses() {
    fetch_losses();
    return std::exchange(fetched_, {});
}

}  // namespace stoker
