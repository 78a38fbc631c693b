// The passes of a step: gradients of the micro-batches, and their changes before the update.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/bridge/pixels.h"
#include "stoker/train/step/clip.h"
#include "stoker/train/step/divided_gradients.h"
#include "stoker/train/step/missing_gradients.h"
#include "stoker/train/step/step.h"

namespace stoker {
namespace {

std::vector<std::string> without_gradient(const Model& model) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.trainable_parameters()) {
        if (!tensor.grad().defined()) {
            names.push_back(name);
        }
    }
    return names;
}

// A user's loss may be anything.
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

// Gradients of the mean loss over the `all` samples of all ranks' batch; each micro-batch is weighted by its share. If
// samples have weights, or ignored pixels, this is the mean of the micro-batches' means, as in torch.
void Step::gradients(const DeviceBatch& batch, std::int64_t all, const at::Tensor& mean) {
    const std::int64_t samples = batch.size();
    // Passes that exchange statistics or parameters are made by all ranks together, by some without samples.
    const bool together = syncs_ || full_ != nullptr;
    std::int64_t parts = std::min(options_.accumulate, together ? (all - 1) / ranks_ + 1 : samples);
    if (short_of_memory_ && !together) {  // a smaller batch needs no smaller parts, which a model may refuse
        parts = std::min(parts, (samples * options_.accumulate + largest_ - 1) / std::max<std::int64_t>(largest_, 1));
    }
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
                backward(output, gradient, share, part + 1 == parts, mean);
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
        reducer_->complete();
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
    if (full_ != nullptr && batch.size() == 0 && !syncs_) {
        full_->forward_without_samples();
        return {};
    }
    at::Tensor output;
    if (pipeline_) {
        output = model_.forward_stage(input.defined() ? input : batch.input);
        if (!pipeline_->last()) {
            return output;
        }
    }
    const at::Tensor scalar = loss(batch, output);
    require_scalar(scalar);
    return scalar;
}

// `output`: that of the last stage; undefined for a whole model.
at::Tensor Step::loss(const DeviceBatch& batch, const at::Tensor& output) {
    if (batch.size() == 0) {  // the mean over no samples is not a number; a sum has gradients of zeros
        if (!pipeline_) {
            return (full_ != nullptr ? full_->outputs(batch) : model_.outputs(batch)).sum();
        }
        return output.sum();
    }
    if (pipeline_) {
        return compute_loss(output, batch, options_.loss);
    }
    return full_ != nullptr ? full_->loss(batch, options_.loss) : model_.loss(batch, options_.loss);
}

// `gradient`: that of a stage's output; undefined for a loss, whose micro-batch has `share` of the step's samples.
// A loss is added to `mean` with that share.
void Step::backward(const at::Tensor& output, at::Tensor gradient, double share, bool last, const at::Tensor& mean) {
    const PhaseSpan span(account_, Phase::backward);
    if (full_ != nullptr && !output.defined()) {
        full_->backward_without_samples();
        return;
    }
    if (!gradient.defined()) {
        mean.add_(output.detach(), share);
        // Gradient of the scaled mean over all samples with respect to this loss. The reducer divides by the ranks.
        if (const double factor = share * ranks_; factor != 1) {
            gradient = at::full({}, factor, output.options());
        }
        if (scaler_) {
            const at::Tensor scale = scaler_->scale().to(output.scalar_type());
            gradient = gradient.defined() ? gradient.mul(scale) : scale;
        }
    }
    if (full_ != nullptr) {
        full_->backward(output, gradient);
        return;
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
        refuse_missing_gradients(without_gradient(model_));
    }
}

// Over the ranks that have other parameters, or other shards of them; null where each has all.
SumOverRanks Step::sum_of_parts() {
    if (full_ != nullptr) {
        return [this](const at::Tensor& values) { group_->all_reduce(values); };
    }
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
    if (gradients.empty()) {  // of a rank whose shards are padding
        gradients.push_back(at::zeros({1}, losses_.options()));
    }
    if (scaler_) {
        found_inf = scaler_->unscale(gradients);
        if (tensor_ != nullptr) {
            share_overflow(found_inf, [this](const at::Tensor& values) { tensor_->all_reduce(values); });
        }
        if (const SumOverRanks sum = sum_of_parts()) {
            share_overflow(found_inf, sum);
        }
    }
    if (options_.clip_value > 0) {
        clip_value(gradients, options_.clip_value);
    }
    if (options_.clip_norm > 0) {
        DividedGradients divided = tensor_ != nullptr ? divided_gradients(model_, *tensor_) : DividedGradients();
        divided.sum_parts = sum_of_parts();
        clip_norm(gradients, options_.clip_norm, divided);
    }
    return found_inf;
}

}  // namespace stoker
