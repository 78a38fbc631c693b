// torch.nn lacks a focal loss: the one for several classes is the mean of (1 - p)^gamma times cross entropy, p the
// probability of the sample's class, weighted as cross entropy is; the binary one is torchvision's sigmoid_focal_loss
// without alpha.
#include "stoker/models/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/any.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// Least value of 1 - p: at 0 the gradient of a power below 1 is infinite.
constexpr double kLeastWrong = 1e-12;
// Least sum of the weights of all targets that count: if none does, the loss is 0.
constexpr double kLeastWeight = 1e-12;

std::optional<at::Tensor> given(const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Tokens (N, T, K) with (N, T) become (N * T, K) with (N * T): torch has the classes in the second place.
bool has_tokens(const at::Tensor& outputs, const at::Tensor& target) {
    return outputs.dim() == 3 && target.dim() == 2;
}

at::Tensor with_classes_second(const at::Tensor& outputs, const at::Tensor& target) {
    return has_tokens(outputs, target) ? outputs.flatten(0, 1) : outputs;
}

at::Tensor for_classes(const at::Tensor& outputs, const at::Tensor& target) {
    return has_tokens(outputs, target) ? target.flatten() : target;
}

// Outputs in the target's shape, in float32: torch would broadcast (N) against (N, 1).
at::Tensor like_target(const at::Tensor& outputs, const at::Tensor& target) {
    if (outputs.numel() != target.numel()) {
        throw InvalidArgument({.where = "model",
                               .expected = fmt::format("outputs [{}], as the target", fmt::join(target.sizes(), ", ")),
                               .got = fmt::format("[{}]", fmt::join(outputs.sizes(), ", "))});
    }
    return outputs.reshape(target.sizes()).to(at::kFloat);
}

at::Tensor focal_cross_entropy(const at::Tensor& outputs, const at::Tensor& target, const LossOptions& options) {
    const at::Tensor entropy =
        at::cross_entropy_loss(outputs, target, {}, at::Reduction::None, options.ignore_index);  // as target
    const at::Tensor wrong = entropy.neg().exp().neg().add(1).clamp_min(kLeastWrong);
    const at::Tensor focal = wrong.pow(options.focal_gamma).mul(entropy);
    const at::Tensor counted = target.ne(options.ignore_index);
    at::Tensor weight = counted.to(focal.scalar_type());
    if (options.weight.defined()) {
        const at::Tensor classes = target.masked_fill(counted.logical_not(), 0);
        weight = weight.mul(options.weight.index_select(0, classes.flatten()).view_as(target));
    }
    return focal.mul(weight).sum().div(weight.sum().clamp_min(kLeastWeight));
}

at::Tensor cross_entropy(const at::Tensor& given_outputs, const at::Tensor& given_target, const LossOptions& options) {
    const at::Tensor outputs = with_classes_second(given_outputs, given_target);
    const at::Tensor target = for_classes(given_outputs, given_target);
    if (options.focal_gamma > 0) {
        return focal_cross_entropy(outputs, target, options);
    }
    const auto mean = [&](const at::Tensor& classes) {
        return at::cross_entropy_loss(outputs, classes, given(options.weight), at::Reduction::Mean,
                                      options.ignore_index, options.label_smoothing);
    };
    if (given_target.dim() == 1 || given_target.is_floating_point()) {
        return mean(target);
    }
    // In a part of a batch, perhaps no pixel or token counts: torch's mean is then NaN, and would spoil the whole step.
    at::Tensor counting = target;
    if (options.weight.defined() && options.label_smoothing == 0) {
        const at::Tensor classes = target.masked_fill(target.eq(options.ignore_index), 0).flatten();
        const at::Tensor weightless = options.weight.index_select(0, classes).eq(0).view_as(target);
        counting = target.masked_fill(weightless, options.ignore_index);
    }
    const at::Tensor loss = mean(counting);
    return at::where(counting.ne(options.ignore_index).any(), loss, at::zeros_like(loss));
}

at::Tensor binary_cross_entropy(const at::Tensor& given_outputs, const at::Tensor& target, const LossOptions& options) {
    const at::Tensor outputs = like_target(given_outputs, target);
    const bool focal = options.focal_gamma > 0;
    at::Tensor entropy = at::binary_cross_entropy_with_logits(outputs, target, {}, given(options.weight),
                                                              focal ? at::Reduction::None : at::Reduction::Mean);
    if (!focal) {
        return entropy;
    }
    const at::Tensor p = outputs.sigmoid();
    const at::Tensor wrong = p.add(target).sub(p.mul(target).mul(2)).clamp_min(kLeastWrong);
    return wrong.pow(options.focal_gamma).mul(entropy).mean();
}

at::Tensor difference(const at::Tensor& outputs, const at::Tensor& target, LossKind kind, std::int64_t reduction) {
    const at::Tensor own = like_target(outputs, target);
    if (kind == LossKind::mse) {
        return at::mse_loss(own, target, reduction);
    }
    return kind == LossKind::l1 ? at::l1_loss(own, target, reduction) : at::huber_loss(own, target, reduction, 1);
}

}  // namespace

at::Tensor as_float(const at::Tensor& outputs) {
    return outputs.is_floating_point() ? outputs.to(at::kFloat) : outputs;
}

at::Tensor compute_loss(const at::Tensor& outputs, const DeviceBatch& batch, const LossOptions& options) {
    if (options.function) {
        const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
        return options.function(as_float(outputs), batch);
    }
    switch (options.kind) {
        case LossKind::cross_entropy:
            return cross_entropy(outputs, batch.target, options);
        case LossKind::binary_cross_entropy:
            return binary_cross_entropy(outputs, batch.target, options);
        default:
            return difference(outputs, batch.target, options.kind, at::Reduction::Mean);
    }
}

at::Tensor element_losses(const at::Tensor& outputs, const at::Tensor& target, const LossOptions& options) {
    switch (options.kind) {
        case LossKind::cross_entropy:
            return at::cross_entropy_loss(with_classes_second(outputs, target), for_classes(outputs, target), {},
                                          at::Reduction::None, options.ignore_index);
        case LossKind::binary_cross_entropy:
            return at::binary_cross_entropy_with_logits(like_target(outputs, target), target, {}, {},
                                                        at::Reduction::None);
        default:
            return difference(outputs, target, options.kind, at::Reduction::None);
    }
}

}  // namespace stoker
