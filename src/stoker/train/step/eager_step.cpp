// The phases of the account within a step are entered here, not in the parts.
#include "stoker/train/step/eager_step.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"
#include "stoker/train/step/clip.h"

namespace stoker {
namespace {

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

// What images become in the step: the type that the model's first layer would cast them to, which saves that cast. A
// program's loss may read them as floats.
at::ScalarType input_type(const StepOptions& options, const Model& model) {
    const bool cast = options.precision.autocast && model.casts_input() && options.loss.function == nullptr;
    return cast ? *options.precision.autocast : at::kFloat;
}

// The loss of a program may be anything.
void require_scalar(const at::Tensor& loss) {
    if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
        throw InvalidArgument({.where = "loss",
                               .expected = "a scalar, the mean over the batch",
                               .got = loss.defined() ? fmt::format("{} [{}]", at::toString(loss.scalar_type()),
                                                                   fmt::join(loss.sizes(), ", "))
                                                     : "an undefined tensor"});
    }
}

}  // namespace

EagerStep::EagerStep(const StepParts& parts, std::string why)
    : Step(parts),
      why_(std::move(why)),
      input_type_(input_type(options_, model_)),
      data_size_(ranks_.data != nullptr ? ranks_.data->size() : 1) {
    if (ranks_.data != nullptr && !options_.sync_batch_norm) {
        for (const auto& [name, tensor] : model_.buffers()) {
            if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) {  // an expanded one cannot be written to
                buffers_.push_back(tensor);
            }
        }
    }
}

void EagerStep::accumulate_at_least(std::int64_t parts, std::int64_t samples) {
    if (parts > options_.accumulate) {
        largest_ = std::max(largest_, samples);
        options_.accumulate = parts;
        short_of_memory_ = true;
    }
}

void EagerStep::train(const DeviceBatch& batch, double lr, std::int64_t samples) {
    optimizer_.set_lr(lr);
    largest_ = std::max(largest_, batch.size());
    const CudnnBenchmark benchmark(options_.cudnn_benchmark && batch.size() == largest_);
    const std::optional<at::Tensor> found_inf = attempt(batch, samples);
    if (!found_inf) {
        return;
    }
    intact_ = false;
    if (!buffers_.empty()) {  // rank 0's, such as running statistics, count (DistributedDataParallel broadcasts them)
        const PhaseSpan span(account_, Phase::communication);
        ranks_.data->broadcast(buffers_);
    }
    const PhaseSpan span(account_, Phase::optimizer);
    apply(*found_inf);
}

std::optional<at::Tensor> EagerStep::attempt(const DeviceBatch& batch, std::int64_t samples) {
    const bool keeps_gradients = !optimizer_.gradients().empty();  // the caller's
    try {
        return gradients(batch, samples, last_loss());
    } catch (const std::exception& error) {  // the other ranks are in the middle of this step
        if (is_out_of_memory(error) && !keeps_gradients) {
            throw Error(
                {.where = "memory",
                 .expected = "room for this rank's part of the batch",
                 .got = describe_shortage(error),
                 .hint = "several processes cannot split a batch further during a run: set train.accumulate to " +
                         std::to_string(2 * options_.accumulate)});
        }
        throw;
    }
}

// Each micro-batch is weighted by its share. If samples have weights, or ignored pixels, the loss is the mean of the
// micro-batches' means, as in torch.
at::Tensor EagerStep::gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean) {
    const std::int64_t samples = batch.size();
    // Passes that exchange statistics or parameters are made by all ranks together, by some without samples.
    const bool together = ranks_.full != nullptr || (ranks_.data != nullptr && options_.sync_batch_norm);
    std::int64_t parts = std::min(options_.accumulate, together ? (all - 1) / data_size_ + 1 : samples);
    if (short_of_memory_ && !together) {  // a smaller batch needs no smaller parts, which a model may refuse
        parts = std::min(parts, (samples * options_.accumulate + largest_ - 1) / std::max<std::int64_t>(largest_, 1));
    }
    mean.zero_();
    const auto size_to = [&](std::int64_t part) { return micro_batch_begin(samples, part, parts); };
    run_passes(samples, parts,
               {.forward =
                    [&](std::int64_t part, const at::Tensor& input) {
                        return forward(batch.narrow(size_to(part), size_to(part + 1) - size_to(part)), input);
                    },
                .backward =
                    [&](std::int64_t part, const at::Tensor& output, const at::Tensor& gradient) {
                        const double share =
                            static_cast<double>(size_to(part + 1) - size_to(part)) / static_cast<double>(all);
                        backward(output, gradient, share, part + 1 == parts, mean);
                    }});
    if (parts == 0) {
        const PhaseSpan span(account_, Phase::backward);
        without_samples();
    }
    return clip();
}

at::Tensor EagerStep::forward(DeviceBatch batch, const at::Tensor& input) {
    const PhaseSpan span(account_, Phase::forward);
    normalize_pixels(batch, input_type_);
    if (before_forward) {
        before_forward(batch.size());
    }
    const Autocast autocast(options_.precision, device_);
    at::Tensor output = pass_forward(batch, input);
    if (batch.size() > 0 && (!ranks_.stage || ranks_.stage->stages->rank() + 1 == ranks_.stage->stages->size())) {
        require_scalar(output);
    }
    return output;
}

void EagerStep::run_passes(std::int64_t /*samples*/, std::int64_t parts, const PipelineStep::Passes& passes) {
    for (std::int64_t part = 0; part < parts; ++part) {
        passes.backward(part, passes.forward(part, {}), {});
    }
}

// `gradient`: that of a stage's output; undefined for a loss, whose micro-batch has `share` of the step's samples.
// A loss is added to `mean` with that share.
void EagerStep::backward(const at::Tensor& output, at::Tensor gradient, double share, bool last,
                         const at::Tensor& mean) {
    const PhaseSpan span(account_, Phase::backward);
    if (output.defined() && !gradient.defined()) {
        mean.add_(output.detach(), share);
        // Gradient of the scaled mean over all samples with respect to this loss. The ranks' gradients are averaged.
        if (const double factor = share * data_size_; factor != 1) {
            gradient = at::full({}, factor, output.options());
        }
        if (scaler_.scales()) {
            const at::Tensor scale = scaler_.scale().to(output.scalar_type());
            gradient = gradient.defined() ? gradient.mul(scale) : scale;
        }
    }
    pass_backward(output, gradient, last);
}

// Returns whether the gradients overflowed, for `apply`; undefined where that is not known.
at::Tensor EagerStep::clip() {
    if (!scaler_.scales() && options_.clip_norm <= 0 && options_.clip_value <= 0) {
        return {};
    }
    const PhaseSpan span(account_, Phase::optimizer);
    const Group* const tensor = ranks_.tensor;
    const SumOverRanks sum = sum_of_parts();
    at::Tensor found_inf;
    std::vector<at::Tensor> gradients = optimizer_.gradients();
    if (gradients.empty()) {  // of a rank whose shards are padding
        gradients.push_back(at::zeros({1}, last_loss().options()));
    }
    if (scaler_.scales()) {
        found_inf = scaler_.unscale(gradients);
        if (tensor != nullptr) {
            share_overflow(found_inf, [tensor](const at::Tensor& values) { tensor->all_reduce(values); });
        }
        if (sum) {
            share_overflow(found_inf, sum);
        }
    }
    if (options_.clip_value > 0) {
        clip_value(gradients, options_.clip_value);
    }
    if (options_.clip_norm > 0) {
        DividedGradients divided = tensor != nullptr ? divided_gradients(model_, *tensor) : DividedGradients();
        divided.sum_parts = sum;
        clip_norm(gradients, options_.clip_norm, divided);
    }
    return found_inf;
}

void EagerStep::apply(const at::Tensor& found_inf) {
    optimizer_.step(found_inf);
    optimizer_.zero_grad();
    if (optimizer_.sharded() && optimizer_.has_whole_parameters()) {
        const PhaseSpan span(account_, Phase::communication);
        optimizer_.gather_parameters();
    }
    scaler_.update();
    ema_.update();
}

bool RetryingStep::run_kernels(const DeviceBatch& batch, const at::Tensor& mean) {
    if (!kernels_ || options_.accumulate > 1 || !kernels_->takes(batch.size())) {
        return false;
    }
    const PhaseSpan span(account_, Phase::step);
    kernels_->run(batch, optimizer_.lr_on_device(), mean);
    ema_.update();
    return true;
}

std::optional<at::Tensor> RetryingStep::attempt(const DeviceBatch& batch, std::int64_t samples) {
    const bool can_retry = optimizer_.gradients().empty();  // otherwise the caller's gradients would be lost
    const at::Tensor mean = last_loss();
    for (bool started = false;;) {
        try {
            if (!started) {
                start_.save();
            }
            started = true;
            if (can_retry && run_kernels(batch, mean)) {
                return std::nullopt;
            }
            return gradients(batch, samples, mean);
        } catch (const std::exception& error) {
            undo_forward(can_retry, started);
            if (!is_out_of_memory(error) || !can_retry) {
                throw;
            }
            if (free_graph()) {
                continue;
            }
            if (!intact_ || options_.accumulate >= largest_) {
                throw;
            }
            accumulate_at_least(std::min(2 * options_.accumulate, largest_), 0);
        }
    }
}

void RetryingStep::undo_forward(bool drop_gradients, bool started) noexcept {
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

}  // namespace stoker
