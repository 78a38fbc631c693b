// The phases of the account within a step are entered here, not in the parts.
#include "stoker/train/step/eager_step.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"
#include "stoker/train/step/clip.h"

namespace stoker {
namespace {

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

// What images become in the step: the type that the model's first layer would cast them to, which saves that cast. A
// program's loss may read them as floats.
at::ScalarType input_type(const StepOptions& options, const Model& model) {
    const bool cast = options.precision.autocast && model.casts_input() && options.loss.function == nullptr;
    return cast ? *options.precision.autocast : at::kFloat;
}

}  // namespace

EagerStep::EagerStep(const std::shared_ptr<StepContext>& context, std::unique_ptr<Passes> passes, std::string why)
    : Step(context),
      passes_(std::move(passes)),
      why_(std::move(why)),
      input_type_(input_type(context->options, context->model)) {}

void EagerStep::train(const DeviceBatch& batch, double lr, std::int64_t samples) {
    context_->optimizer.set_lr(lr);
    const bool whole = context_->micro_batches.add(batch.size());
    const CudnnBenchmark benchmark(context_->options.cudnn_benchmark && whole);
    const std::optional<at::Tensor> found_inf = attempt(batch, samples);
    context_->losses.add();
    if (!found_inf) {
        return;
    }
    context_->intact = false;
    context_->data.share_buffers(context_->account);
    const PhaseSpan span(context_->account, Phase::optimizer);
    apply(*found_inf);
}

std::optional<at::Tensor> EagerStep::attempt(const DeviceBatch& batch, std::int64_t samples) {
    const bool keeps_gradients = !context_->optimizer.gradients().empty();  // the caller's
    try {
        return gradients(batch, samples, context_->losses.next());
    } catch (const std::exception& error) {  // the other ranks are in the middle of this step
        if (is_out_of_memory(error) && !keeps_gradients) {
            refuse_out_of_memory(error, accumulate());
        }
        throw;
    }
}

// Each micro-batch is weighted by its share. If samples have weights, or ignored pixels, the loss is the mean of the
// micro-batches' means, as in torch.
at::Tensor EagerStep::gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean) {
    const std::int64_t samples = batch.size();
    const std::int64_t parts = passes_->together() ? std::min(accumulate(), (all - 1) / context_->data.size() + 1)
                                                   : context_->micro_batches.of(samples);
    mean.zero_();
    const auto size_to = [&](std::int64_t part) { return micro_batch_begin(samples, part, parts); };
    passes_->run(samples, parts,
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
        const PhaseSpan span(context_->account, Phase::backward);
        passes_->without_samples();
    }
    return clip();
}

at::Tensor EagerStep::forward(DeviceBatch batch, const at::Tensor& input) {
    const PhaseSpan span(context_->account, Phase::forward);
    normalize_pixels(batch, input_type_);
    if (before_forward) {
        before_forward(batch.size());
    }
    const Autocast autocast(context_->options.precision, context_->device);
    return passes_->forward(batch, input);
}

// `gradient`: that of a stage's output; undefined for a loss, whose micro-batch has `share` of the step's samples.
// A loss is added to `mean` with that share.
void EagerStep::backward(const at::Tensor& output, at::Tensor gradient, double share, bool last,
                         const at::Tensor& mean) {
    const PhaseSpan span(context_->account, Phase::backward);
    if (output.defined() && !gradient.defined()) {
        mean.add_(output.detach(), share);
        // Gradient of the scaled mean over all samples with respect to this loss. The ranks' gradients are averaged.
        if (const double factor = share * context_->data.size(); factor != 1) {
            gradient = at::full({}, factor, output.options());
        }
        gradient = context_->scaler.scaled(gradient, output.scalar_type());
    }
    passes_->backward(output, gradient, last);
}

// Returns whether the gradients overflowed, for `apply`; undefined where that is not known.
at::Tensor EagerStep::clip() {
    const StepOptions& options = context_->options;
    Scaler& scaler = context_->scaler;
    if (!scaler.scales() && options.clip_norm <= 0 && options.clip_value <= 0) {
        return {};
    }
    const PhaseSpan span(context_->account, Phase::optimizer);
    const Group* const tensor = context_->tensor;
    const SumOverRanks sum_of_parts = passes_->sum_of_parts();
    at::Tensor found_inf;
    std::vector<at::Tensor> gradients = context_->optimizer.gradients();
    if (gradients.empty()) {  // of a rank whose shards are padding
        gradients.push_back(at::zeros({1}, context_->losses.next().options()));
    }
    if (scaler.scales()) {
        found_inf = scaler.unscale(gradients);
        if (tensor != nullptr) {
            share_overflow(found_inf, [tensor](const at::Tensor& values) { tensor->all_reduce(values); });
        }
        if (sum_of_parts) {
            share_overflow(found_inf, sum_of_parts);
        }
    }
    if (options.clip_value > 0) {
        clip_value(gradients, options.clip_value);
    }
    if (options.clip_norm > 0) {
        DividedGradients divided = tensor != nullptr ? divided_gradients(context_->model, *tensor) : DividedGradients();
        divided.sum_parts = sum_of_parts;
        clip_norm(gradients, options.clip_norm, divided);
    }
    return found_inf;
}

void EagerStep::apply(const at::Tensor& found_inf) {
    Optimizer& optimizer = context_->optimizer;
    optimizer.step(found_inf);
    optimizer.zero_grad();
    if (optimizer.sharded() && optimizer.has_whole_parameters()) {
        const PhaseSpan span(context_->account, Phase::communication);
        optimizer.gather_parameters();
    }
    context_->scaler.update();
    context_->ema.update();
}

RetryingStep::RetryingStep(const std::shared_ptr<StepContext>& context, std::string why)
    : EagerStep(context, make_passes(*context, {}), std::move(why)), start_(context->model, context->device) {}

bool RetryingStep::record(const DeviceBatch& batch, const at::Tensor& mean) {
    const bool fused = run_fused(batch, mean);
    if (!fused) {
        apply(gradients(batch, batch.size(), mean));
    }
    return fused;
}

std::optional<at::Tensor> RetryingStep::attempt(const DeviceBatch& batch, std::int64_t samples) {
    const bool can_retry = context_->optimizer.gradients().empty();  // otherwise the caller's gradients would be lost
    const at::Tensor mean = context_->losses.next();
    for (bool started = false;;) {
        try {
            if (!started) {
                start_.save();
            }
            started = true;
            if (can_retry && run_fused(batch, mean)) {
                return std::nullopt;
            }
            return gradients(batch, samples, mean);
        } catch (const std::exception& error) {
            const bool retries = is_out_of_memory(error) && can_retry;
            undo_forward(can_retry, started);
            if (!retries || (!free_memory() && (!context_->intact || !context_->micro_batches.split()))) {
                throw;
            }
        }
    }
}

void RetryingStep::undo_forward(bool drop_gradients, bool started) noexcept {
    context_->intact = false;
    try {
        if (drop_gradients) {
            context_->optimizer.zero_grad();
        }
        if (started) {
            start_.restore();
        }
        context_->intact = true;
    } catch (const std::exception&) {  // a broken device; the error that ended the step is about to be thrown
    }
}

}  // namespace stoker
