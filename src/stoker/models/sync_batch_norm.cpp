// Ranks exchange sums in double: of x and x^2, made of each rank's mean and variance, then of dy and dy * x_hat. The
// kernels are LibTorch's for batch norm with given statistics.
#include "stoker/models/sync_batch_norm.h"

#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "stoker/base/error.h"
#include "stoker/models/batch_norm_relu.h"

namespace stoker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLayer = "layer";
constexpr const char* kCount = "count";

// A layer's constants for its node: how to sum over the ranks, and the running statistics.
struct Layer : torch::CustomClassHolder {
    Layer(SumOverRanks over_ranks, const BatchNorm& of, bool update)
        : sum(std::move(over_ranks)), norm(of), update_running(update) {}
    SumOverRanks sum;
    BatchNorm norm;
    bool update_running;
};

struct Statistics {
    at::Tensor mean;   // (C), the parameters' type
    at::Tensor var;    // (C), biased
    double count = 0;  // values of a channel, over all ranks
};

at::Tensor per_channel(const at::Tensor& values) {
    return values.view({1, -1, 1, 1});
}

Statistics statistics_of(const at::Tensor& x, const Layer& layer) {
    const at::Tensor& like = layer.norm.gamma;
    const std::int64_t channels = x.size(1);
    const auto own = static_cast<double>(x.numel() / channels);
    at::Tensor sums = at::zeros({2 * channels + 1}, like.options().dtype(at::kDouble));  // of x, of x^2, count
    if (own > 0) {
        // The given running statistics only name the type of the results.
        const auto [mean, var] =
            at::batch_norm_update_stats(x, at::zeros_like(like), at::ones_like(like), /*momentum=*/0);
        const at::Tensor own_mean = mean.to(at::kDouble);
        const at::Tensor own_square = own_mean.square().add_(var);
        sums = at::cat({own_mean, own_square, at::ones_like(sums.narrow(0, 0, 1))}).mul_(own);
    }
    layer.sum(sums);
    const at::Tensor count = sums.narrow(0, 2 * channels, 1);
    const at::Tensor mean = sums.narrow(0, 0, channels).div(count);
    const at::Tensor var = sums.narrow(0, channels, channels).div(count).sub_(mean.square()).clamp_min_(0);
    return {.mean = mean.to(like.scalar_type()), .var = var.to(like.scalar_type()), .count = count.item<double>()};
}

void update_running(const BatchNorm& norm, const Statistics& found) {
    norm.running_mean.mul_(1 - kBatchNormMomentum).add_(found.mean, kBatchNormMomentum);
    const double unbiased = found.count / (found.count - 1);
    norm.running_var.mul_(1 - kBatchNormMomentum).add_(found.var, kBatchNormMomentum * unbiased);
}

struct Synced : torch::autograd::Function<Synced> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                              const at::Tensor& beta, const c10::intrusive_ptr<Layer>& layer) {
        const Statistics found = statistics_of(x, *layer);
        if (layer->update_running) {
            update_running(layer->norm, found);
        }
        context->save_for_backward({x, gamma, found.mean, found.var});
        context->saved_data[kLayer] = c10::IValue::make_capsule(layer);
        context->saved_data[kCount] = found.count;
        return x.numel() == 0 ? at::empty_like(x)
                              : std::get<0>(at::native_batch_norm(x, gamma, beta, found.mean, found.var,
                                                                  /*training=*/false, /*momentum=*/0, kBatchNormEps));
    }

    // dx = gamma / std * (dy - mean(dy) - x_hat * mean(dy * x_hat)), with means over all ranks. The gradients of gamma
    // and beta are this rank's; they are averaged with all others.
    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        if (c10::GradMode::is_enabled()) {  // the gradients would have no history
            throw Unsupported({.where = "train.sync_batch_norm", .expected = "first gradients", .got = "create_graph"});
        }
        const variable_list saved = context->get_saved_variables();
        const at::Tensor& x = saved[0];
        const at::Tensor& gamma = saved[1];
        const at::Tensor& mean = saved[2];
        const at::Tensor& var = saved[3];
        const auto layer = c10::static_intrusive_pointer_cast<Layer>(context->saved_data[kLayer].toCapsule());
        const double count = context->saved_data[kCount].toDouble();
        at::Tensor dgamma = at::zeros_like(gamma);
        at::Tensor dbeta = at::zeros_like(gamma);
        if (x.numel() > 0) {
            const at::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());
            std::tie(std::ignore, dgamma, dbeta) = at::native_batch_norm_backward(
                dy, x, gamma, mean, var, {}, {}, /*train=*/false, kBatchNormEps, {false, true, true});
        }
        const at::Tensor sums = at::cat({dbeta, dgamma}).to(at::kDouble);
        layer->sum(sums);
        const at::Tensor means = sums.div(count).to(gamma.scalar_type());
        const at::Tensor inv_std = var.add(kBatchNormEps).rsqrt_();
        const at::Tensor mean_dy = means.narrow(0, 0, gamma.numel());
        const at::Tensor slope = means.narrow(0, gamma.numel(), gamma.numel()).mul(inv_std);
        const at::Tensor centred = x.sub(per_channel(mean)).mul_(per_channel(slope));
        const at::Tensor dx =
            gradients[0].sub(per_channel(mean_dy)).sub_(centred).mul_(per_channel(gamma.detach().mul(inv_std)));
        return {dx.to(x.scalar_type()), dgamma, dbeta, at::Tensor()};
    }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, const BatchNorm& norm, const SumOverRanks& sum, bool update_running) {
    return Synced::apply(x, norm.gamma, norm.beta, c10::make_intrusive<Layer>(sum, norm, update_running));
}

}  // namespace stoker
