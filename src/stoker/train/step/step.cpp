// The phases of the account within a step are entered here, not in the parts.
#include "stoker/train/step/step.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

constexpr std::int64_t kOnDevice = 256;  // losses, before they are fetched unasked
constexpr const char* kNoRoomForGraph = "the device's memory is too small for a graph beside other steps";

std::vector<at::Tensor> trained_tensors(const Model& model) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : model.trainable_parameters()) {
        tensors.push_back(tensor);
    }
    return tensors;
}

// Without expanded tensors, which cannot be written to.
std::vector<at::Tensor> own_buffers(const Model& model) {
    std::vector<at::Tensor> buffers;
    for (const auto& [name, tensor] : model.buffers()) {
        if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) {
            buffers.push_back(tensor);
        }
    }
    return buffers;
}

[[noreturn]] void refuse_out_of_memory(const std::exception& error, std::int64_t accumulate) {
    throw Error({.where = "memory",
                 .expected = "room for this rank's part of the batch",
                 .got = describe_shortage(error),
                 .hint = "several processes cannot split a batch further during a run: set train.accumulate to " +
                         std::to_string(2 * accumulate)});
}

// Switches cuDNN's search on or off for a scope. Algorithms that it found are also used outside.
class CudnnBenchmark {
  public:
    explicit CudnnBenchmark(bool on) : before_(at::globalContext().benchmarkCuDNN()) {
        at::globalContext().setBenchmarkCuDNN(on);
    }
    CudnnBenchmark(const CudnnBenchmark&) = delete;
    CudnnBenchmark& operator=(const CudnnBenchmark&) = delete;
    ~CudnnBenchmark() { at::globalContext().setBenchmarkCuDNN(before_); }

  private:
    bool before_;
};

// Why a step cannot be a CUDA graph; empty where it can.
std::string why_no_graph(const StepOptions& options, const Optimizer& optimizer, const at::Device& device, bool alone) {
    if (!options.compile) {
        return "train.compile is none";
    }
    if (!alone) {
        return "several processes train one model";
    }
    if (!device.is_cuda()) {
        return "on a CPU only an mlp has a fused step";
    }
    if (optimizer.kernel() != OptimizerKernel::fused) {
        return "the optimizer reads its state on the host";
    }
    return "";
}

// The type of images in the step: the one that the model's first layer would cast them to, which saves that cast. A
// user's loss may also read them.
at::ScalarType input_type(const StepOptions& options, const Model& model) {
    const bool cast = options.precision.autocast && model.casts_input() && options.loss.function == nullptr;
    return cast ? *options.precision.autocast : at::kFloat;
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

}  // namespace

Step::Step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device, const StepOptions& options,
           const Group* group, const Group* tensor, const std::optional<StagePlan>& stage, FullyShardedModel* full)
    : model_(model),
      optimizer_(optimizer),
      account_(account),
      device_(device),
      options_(options),
      input_type_(input_type(options, model)),
      group_(group),
      tensor_(tensor != nullptr && !tensor->alone() ? tensor : nullptr),
      full_(full),
      start_(model, device),
      losses_(at::zeros({kOnDevice}, at::TensorOptions().dtype(at::kFloat).device(device))) {
    if (options.precision.loss_scaling) {
        scaler_.emplace(device, options.scaler);
    }
    if (options.ema > 0) {
        ema_.emplace(full != nullptr ? full->state() : model.state(), options.ema);
    }
    model.sync_batch_norm(nullptr);  // of an earlier group
    if (stage) {
        pipeline_.emplace(*stage, account);
    }
    if (tensor_ != nullptr) {
        model.require_autograd();
    }
    if (group != nullptr && !group->alone()) {
        model.require_autograd();
        ranks_ = group->size();
        if (full != nullptr) {
            full->reduce_in(options.compress_gradients);
            full->measure(account);
        } else {
            reducer_.emplace(*group, trained_tensors(model), options.compress_gradients);
        }
        syncs_ = options.sync_batch_norm;
        if (syncs_) {
            model.sync_batch_norm([group](const at::Tensor& values) { group->all_reduce(values); });
        } else {
            buffers_ = own_buffers(model);
        }
    }
    alone_ = !reducer_ && full == nullptr && tensor_ == nullptr && !pipeline_;
    const std::string why_not = why_not_fused(options, device);
    if (options.compile && alone_ && why_not.empty()) {
        fused_ = FusedStep::make(model, optimizer, device, options.loss);
        fused_on_device_ = FusedDeviceStep::make(model, optimizer, device, options.loss);
    }
    why_eager_ = why_no_graph(options, optimizer, device, alone_);
    if (options.compile && alone_ && device.is_cpu() && model.linear_chain() != nullptr) {
        why_eager_ = !why_not.empty() ? why_not
                                      : "the fused step of an mlp updates all parameters alike (model.freeze, "
                                        "optimizer.no_decay, optimizer.lr_scales)";
    }
    if (why_eager_.empty()) {
        try {
            capture_with(torch_cuda().make_graphs(device));
        } catch (const Unsupported& error) {
            why_eager_ = error.what();
        }
    }
}

void Step::capture_with(std::unique_ptr<DeviceGraphs> graphs) {
    graph_.emplace(std::move(graphs), memory());
}

std::vector<at::Tensor> Step::memory() const {
    std::vector<at::Tensor> all = optimizer_.tensors();
    const auto add = [&](const std::vector<NamedTensor>& tensors) {
        for (const NamedTensor& entry : tensors) {
            all.push_back(entry.tensor);
        }
    };
    add(model_.state());
    const std::vector<at::Tensor> constants = model_.constants();
    all.insert(all.end(), constants.begin(), constants.end());
    if (scaler_) {
        const std::vector<at::Tensor> own = scaler_->tensors();
        all.insert(all.end(), own.begin(), own.end());
    }
    if (ema_) {
        add(ema_->state());
    }
    return all;
}

void Step::accumulate_at_least(std::int64_t parts, std::int64_t samples) {
    if (parts > options_.accumulate) {
        largest_ = std::max(largest_, samples);
        options_.accumulate = parts;
        short_of_memory_ = true;
        if (graph_) {
            graph_->invalidate();
        }
    }
}

std::string Step::compiled() const {
    if (fused_) {
        return "fused";
    }
    if (graph_ && graph_->captured()) {
        const std::string& why = graph_->why_one();
        return fmt::format("graph{}{}", graph_fused_ ? ", fused" : "",
                           why.empty() ? "" : fmt::format(", which batches are copied for: {}", why));
    }
    return "eager: " + (graph_ ? graph_->reason() : why_eager_);
}

void Step::run(const DeviceBatch& batch, double lr) {
    if (reducer_) {
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
    if (fused_) {
        const PhaseSpan span(account_, Phase::step);
        losses_.mutable_data_ptr<float>()[on_device_++] = static_cast<float>(fused_->run(batch, lr));
        if (ema_) {
            ema_->update();
        }
    } else {
        optimizer_.set_lr(lr);
        if (!run_graph(batch)) {
            run_eager(batch, samples);
        }
    }
    intact_ = true;
}

bool Step::run_graph(const DeviceBatch& batch) {
    if (!graph_ || !optimizer_.gradients().empty()) {  // gradients of the caller, for this step only
        return false;
    }
    const PhaseSpan span(account_, Phase::step);
    bool done = false;
    try {
        done =
            graph_->run(batch, losses_.select(0, on_device_), [this](const DeviceBatch& whole, const at::Tensor& mean) {
                graph_fused_ = run_fused_on_device(whole, mean);
                if (!graph_fused_) {
                    gradients(whole, whole.size(), mean);
                    apply(clip());
                }
            });
    } catch (const std::exception& error) {  // the graph's own batch did not fit, or the launch: no weight has changed
        if (!is_out_of_memory(error)) {
            throw;
        }
        graph_->disable(kNoRoomForGraph);
    }
    if (done) {
        ++on_device_;
    } else {
        optimizer_.zero_grad();  // a failed capture may have left some
    }
    return done;
}

bool Step::free_graph() {
    const bool had_memory = graph_ && graph_->captured();
    if (had_memory) {
        graph_->disable(kNoRoomForGraph);
    }
    return had_memory;
}

// Returns false if the step is not a fused one, or memory has split its batches. It throws before it changes a weight,
// if at all.
bool Step::run_fused_on_device(const DeviceBatch& batch, const at::Tensor& mean) {
    if (!fused_on_device_ || options_.accumulate > 1 || !fused_on_device_->takes(batch.size())) {
        return false;
    }
    const PhaseSpan span(account_, Phase::step);
    fused_on_device_->run(batch, optimizer_.lr_on_device(), mean);
    if (ema_) {
        ema_->update();
    }
    return true;
}

// Until the update changes weights a step can begin again: gradients, buffers and random generators are restored.
void Step::run_eager(const DeviceBatch& batch, std::int64_t samples) {
    const bool can_retry = optimizer_.gradients().empty();  // otherwise the caller's gradients would be lost
    largest_ = std::max(largest_, batch.size());
    const CudnnBenchmark benchmark(options_.cudnn_benchmark && batch.size() == largest_);
    bool started = false;
    at::Tensor found_inf;
    for (;;) {
        try {
            if (alone_ && !started) {
                start_.save();
            }
            started = true;
            if (can_retry && run_fused_on_device(batch, losses_.select(0, on_device_))) {
                ++on_device_;
                return;
            }
            gradients(batch, samples, losses_.select(0, on_device_));
            found_inf = clip();
            break;
        } catch (const std::exception& error) {
            if (!is_out_of_memory(error) || !can_retry) {
                undo_forward(can_retry, started);
                throw;
            }
            if (!alone_) {  // the other ranks are in the middle of this step
                refuse_out_of_memory(error, options_.accumulate);
            }
            undo_forward(/*drop_gradients=*/true, started);
            if (free_graph()) {
                continue;
            }
            if (!intact_ || options_.accumulate >= largest_) {
                throw;
            }
        }
        options_.accumulate = std::min(2 * options_.accumulate, largest_);
        short_of_memory_ = true;
    }
    intact_ = false;
    ++on_device_;
    share_buffers();
    const PhaseSpan span(account_, Phase::optimizer);
    apply(found_inf);
}

// Rank 0's buffers, such as running statistics, count on all ranks (broadcast_buffers of DistributedDataParallel).
void Step::share_buffers() {
    if (!buffers_.empty()) {
        const PhaseSpan span(account_, Phase::communication);
        group_->broadcast(buffers_);
    }
}

// After a failure before the update. Several ranks have no snapshot of the step's start.
void Step::undo_forward(bool drop_gradients, bool started) noexcept {
    if (!alone_) {
        return;
    }
    intact_ = false;
    try {
        if (drop_gradients) {
            optimizer_.zero_grad();
        }
        if (started) {
            start_.restore();
        }
        intact_ = true;
    } catch (const std::exception&) {  // a broken device; the error that ended the step is about to be thrown
    }
}

// The fused kernels allocate nothing here, so that memory does not run out between two weights.
void Step::apply(const at::Tensor& found_inf) {
    optimizer_.step(found_inf);
    optimizer_.zero_grad();
    if (optimizer_.sharded() && optimizer_.has_whole_parameters()) {
        const PhaseSpan span(account_, Phase::communication);
        optimizer_.gather_parameters();
    }
    if (scaler_) {
        scaler_->update();
    }
    if (ema_) {
        ema_->update();
    }
}

void Step::load(const std::vector<NamedTensor>& scaler, const std::vector<NamedTensor>& ema) {
    const auto require = [](const char* key, bool present, bool saved) {
        if (present != saved) {
            throw InvalidArgument({.where = key,
                                   .expected = saved ? "what the run began with" : "none, as when the run began",
                                   .got = present ? "another" : "none",
                                   .hint = "resume with the recipe that the run began with"});
        }
    };
    if (scaler_.has_value() == scaler.empty()) {  // "auto" depends on the device
        throw InvalidArgument({.where = "train.precision",
                               .expected = scaler.empty() ? "one without loss scaling, as the run began with"
                                                          : "fp16 with loss scaling, as the run began with",
                               .got = scaler.empty() ? "fp16" : "one without loss scaling",
                               .hint = scaler.empty() ? "set train.precision to what it was: bf16, tf32 or fp32"
                                                      : "set train.precision = \"fp16\""});
    }
    require("train.ema", ema_.has_value(), !ema.empty());
    if (scaler_) {
        scaler_->load(scaler);
    }
    if (ema_) {
        ema_->load(ema);
    }
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
