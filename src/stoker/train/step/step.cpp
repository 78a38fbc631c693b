// The phases of the account within a step are entered here, not in the parts.
#include "stoker/train/step/step.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/step/clip.h"
#include "stoker/train/step/divided_gradients.h"

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

[[noreturn]] void refuse_missing_gradients(const Model& model) {
    std::string names;
    for (const auto& [name, tensor] : model.trainable_parameters()) {
        if (!tensor.grad().defined()) {
            names += (names.empty() ? "" : ", ") + name;
        }
    }
    throw InvalidArgument({.where = "model",
                           .expected = "a loss that depends on every trained parameter, as several processes need",
                           .got = (names.empty() ? "some" : names) + " without a gradient",
                           .hint = "name them in model.freeze, or train with one process"});
}

// A loss of one's own may be anything.
void require_scalar(const at::Tensor& loss) {
    if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
        throw InvalidArgument({.where = "loss",
                               .expected = "a scalar, the mean over the batch",
                               .got = loss.defined() ? fmt::format("{} [{}]", at::toString(loss.scalar_type()),
                                                                   fmt::join(loss.sizes(), ", "))
                                                     : "an undefined tensor"});
    }
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

// What images become in the step: the type that the model's first layer would cast them to, which saves that cast. A
// loss of one's own may read them, too.
at::ScalarType input_type(const StepOptions& options, const Model& model) {
    const bool cast = options.precision.autocast && model.casts_input() && options.loss.function == nullptr;
    return cast ? *options.precision.autocast : at::kFloat;
}

// Why the step of an mlp on a CPU cannot be fused; empty where the options allow it.
std::string why_not_fused(const StepOptions& options) {
    if (options.precision.autocast || options.precision.loss_scaling) {
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
           const Group* group, const Group* tensor, const std::optional<StagePlan>& stage)
    : model_(model),
      optimizer_(optimizer),
      account_(account),
      device_(device),
      options_(options),
      input_type_(input_type(options, model)),
      group_(group),
      tensor_(tensor != nullptr && !tensor->alone() ? tensor : nullptr),
      start_(model, device),
      losses_(at::zeros({kOnDevice}, at::TensorOptions().dtype(at::kFloat).device(device))) {
    if (options.precision.loss_scaling) {
        scaler_.emplace(device, options.scaler);
    }
    if (options.ema > 0) {
        ema_.emplace(model, options.ema);
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
        reducer_.emplace(*group, trained_tensors(model), options.compress_gradients);
        syncs_ = options.sync_batch_norm;
        if (syncs_) {
            model.sync_batch_norm([group](const at::Tensor& values) { group->all_reduce(values); });
        } else {
            buffers_ = own_buffers(model);
        }
    }
    alone_ = !reducer_ && tensor_ == nullptr && !pipeline_;
    const std::string why_not = why_not_fused(options);
    if (options.compile && alone_ && why_not.empty()) {
        fused_ = FusedStep::make(model, optimizer, device, options.loss);
    }
    why_eager_ = why_no_graph(options, optimizer, device, alone_);
    if (options.compile && alone_ && device.is_cpu() && model.linear_chain() != nullptr) {
        why_eager_ = !why_not.empty() ? why_not
                                      : "the fused step of an mlp updates all parameters alike (model.freeze, "
                                        "optimizer.no_decay)";
    }
    if (why_eager_.empty()) {
        try {
            capture_with(torch_cuda().make_graph(device));
        } catch (const Unsupported& error) {
            why_eager_ = error.what();
        }
    }
}

void Step::capture_with(std::unique_ptr<DeviceGraph> graph) {
    graph_.emplace(std::move(graph), memory());
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

void Step::accumulate_at_least(std::int64_t parts) {
    if (parts > options_.accumulate) {
        options_.accumulate = parts;
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
        return "graph";
    }
    return "eager: " + (graph_ ? graph_->reason() : why_eager_);
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
                gradients(whole, whole.size(), mean);
                apply(clip());
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
            if (!intact_ || options_.accumulate >= batch.size()) {
                throw;
            }
        }
        options_.accumulate = std::min(2 * options_.accumulate, batch.size());
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

// Gradients of the mean loss over the `all` samples of all ranks' batch; each micro-batch is weighted by its share.
// Where samples have weights, or ignored pixels, this is the mean of the micro-batches' means, as in torch.
void Step::gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean) {
    const std::int64_t samples = batch.size();
    // Forward passes that exchange statistics are made by all ranks together, by some without samples.
    const std::int64_t parts = std::min(options_.accumulate, syncs_ ? (all - 1) / ranks_ + 1 : samples);
    mean.zero_();
    const auto size_to = [&](std::int64_t part) { return micro_batch_begin(samples, part, parts); };
    const PipelineStep::Passes passes{
        .forward =
            [&](std::int64_t part, const at::Tensor& input) {
                return forward(batch.narrow(size_to(part), size_to(part + 1) - size_to(part)), input);
            },
        .backward =
            [&](std::int64_t part, const at::Tensor& output, const at::Tensor& gradient) {
                const double share = static_cast<double>(size_to(part + 1) - size_to(part)) / static_cast<double>(all);
                backward(output, gradient, share, part + 1 == parts);
                if (!gradient.defined()) {
                    mean.add_(output.detach(), share);
                }
            }};
    if (pipeline_) {
        pipeline_->run(samples, parts, passes);
    } else {
        for (std::int64_t part = 0; part < parts; ++part) {  // a whole model is the only stage
            passes.backward(part, passes.forward(part, {}), {});
        }
    }
    if (parts == 0) {
        const PhaseSpan span(account_, Phase::backward);
        reducer_->reduce_zeros();
    }
}

// The loss of a micro-batch, a scalar, the mean over its samples; of a stage before the last its output for `input`.
at::Tensor Step::forward(DeviceBatch batch, const at::Tensor& input) {
    const PhaseSpan span(account_, Phase::forward);
    normalize_pixels(batch, input_type_);
    if (before_forward) {
        before_forward(batch.size());
    }
    const Autocast autocast(options_.precision, device_);
    at::Tensor output;
    if (pipeline_) {
        output = model_.forward_stage(input.defined() ? input : batch.input);
        if (!pipeline_->last()) {
            return output;
        }
    }
    at::Tensor loss;
    if (batch.size() == 0) {  // the mean over no samples is not a number; a sum has gradients of zeros
        loss = (pipeline_ ? output : model_.outputs(batch)).sum();
    } else {
        loss = pipeline_ ? compute_loss(output, batch, options_.loss) : model_.loss(batch, options_.loss);
    }
    require_scalar(loss);
    return loss;
}

// `gradient`: that of a stage's output; undefined for a loss, whose micro-batch has `share` of the step's samples.
void Step::backward(const at::Tensor& output, at::Tensor gradient, double share, bool last) {
    const PhaseSpan span(account_, Phase::backward);
    if (!gradient.defined()) {
        // Gradient of the scaled mean over all samples with respect to this loss. The reducer divides by the ranks.
        if (const double factor = share * ranks_; factor != 1) {
            gradient = at::full({}, factor, output.options());
        }
        if (scaler_) {
            const at::Tensor scale = scaler_->scale().to(output.scalar_type());
            gradient = gradient.defined() ? gradient.mul(scale) : scale;
        }
    }
    if (!reducer_) {
        model_.backward(output, gradient);
        return;
    }
    if (last) {
        reducer_->prepare();
    }
    group_->guard([&] { model_.backward(output, gradient); });
    if (last && !reducer_->complete()) {
        refuse_missing_gradients(model_);
    }
}

// Null for a whole model.
SumOverRanks Step::sum_of_stages() {
    return pipeline_ ? SumOverRanks([this](const at::Tensor& values) { pipeline_->sum(values); }) : nullptr;
}

// Unscales and clips the gradients. Returns whether they overflowed (Scaler::unscale), for `apply`.
at::Tensor Step::clip() {
    if (!scaler_ && options_.clip_norm <= 0 && options_.clip_value <= 0) {
        return {};
    }
    const PhaseSpan span(account_, Phase::optimizer);
    at::Tensor found_inf;
    std::vector<at::Tensor> gradients = optimizer_.gradients();
    if (scaler_) {
        found_inf = scaler_->unscale(gradients);
        if (tensor_ != nullptr) {
            share_overflow(found_inf, [this](const at::Tensor& values) { tensor_->all_reduce(values); });
        }
        if (pipeline_) {
            share_overflow(found_inf, sum_of_stages());
        }
    }
    if (options_.clip_value > 0) {
        clip_value(gradients, options_.clip_value);
    }
    if (options_.clip_norm > 0) {
        DividedGradients divided = tensor_ != nullptr ? divided_gradients(model_, *tensor_) : DividedGradients();
        divided.sum_stages = sum_of_stages();
        clip_norm(gradients, options_.clip_norm, divided);
    }
    return found_inf;
}

// The fused kernels allocate nothing here, so that memory does not run out between two weights.
void Step::apply(const at::Tensor& found_inf) {
    optimizer_.step(found_inf);
    optimizer_.zero_grad();
    if (optimizer_.sharded()) {
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
    require("train.precision", scaler_.has_value(), !scaler.empty());
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
