// Forward for evaluation in plain ATen calls; loss and backward in calls that write into kept memory, below
// autograd's dispatch.
#include "stoker/models/mlp.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold_backward.h>

#include <algorithm>

#include "stoker/models/init.h"

namespace stoker {

namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
    switch (activation) {
        case Activation::gelu:
            return at::gelu(x);
        case Activation::tanh:
            return at::tanh(x);
        case Activation::relu:
            break;
    }
    return at::relu(x);
}

}  // namespace

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, Activation activation,
         at::Generator& generator) {
    chain_.activation = activation;
    std::vector<std::int64_t> widths = hidden;
    widths.push_back(classes);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string name = "fc" + std::to_string(i + 1);
        const at::Tensor weight = parameter(name + ".weight", default_uniform({widths[i], inputs}, inputs, generator));
        const at::Tensor bias = parameter(name + ".bias", default_uniform({widths[i]}, inputs, generator));
        chain_.layers.push_back({.weight = weight, .bias = bias});
        inputs = widths[i];
    }
    kept_.resize(chain_.layers.size());
}

at::Tensor Mlp::forward(const at::Tensor& input) {
    at::Tensor x = input.flatten(1);  // (N, inputs)
    for (const auto& [weight, bias] : chain_.layers) {
        x = at::linear(x, weight, bias);
        if (!weight.is_same(chain_.layers.back().weight)) {
            x = activate(chain_.activation, x);
        }
    }
    return x;  // (N, classes)
}

bool Mlp::all_train() const {
    return std::ranges::all_of(chain_.layers, [](const LinearChain::Layer& layer) {
        return layer.weight.requires_grad() && layer.bias.requires_grad();
    });
}

void Mlp::prepare(const at::Tensor& input) {
    const std::int64_t batch = input.size(0);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
        const auto& [weight, bias] = chain_.layers[i];
        Kept& kept = kept_[i];
        if (kept.output.defined() && kept.output.size(0) == batch && kept.output.device() == input.device()) {
            continue;
        }
        kept = {.output = at::empty({batch, weight.size(0)}, input.options()),
                .output_grad = at::empty({batch, weight.size(0)}, input.options()),
                .weight_grad = at::empty_like(weight),
                .bias_grad = at::empty_like(bias)};
    }
    if (!minus_one_.defined() || minus_one_.size(0) != batch || minus_one_.device() != input.device()) {
        minus_one_ = at::full({batch, 1}, -1.0, input.options());
    }
    log_probabilities_ = kept_.back().output;  // log_softmax runs in place
}

at::Tensor Mlp::loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options) {
    if (options.autograd || !all_train() || chain_.activation != Activation::relu || options.label_smoothing != 0 ||
        label.scalar_type() != at::kLong || at::autocast::is_autocast_enabled(input.device().type())) {
        label_.reset();
        return Model::loss(input, label, options);
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    input_ = input.flatten(1);
    label_ = label;
    prepare(input_);
    const at::Tensor* x = &input_;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
        at::Tensor& output = kept_[i].output;
        at::addmm_out(output, chain_.layers[i].bias, *x, chain_.layers[i].weight.t());
        if (i + 1 < kept_.size()) {
            output.relu_();
        }
        x = &output;
    }
    at::_log_softmax_out(log_probabilities_, kept_.back().output, 1, /*half_to_float=*/false);
    return at::nll_loss(log_probabilities_, label_);
}

// To those of earlier micro-batches, where there are any.
void Mlp::add_gradients(std::size_t layer, const at::Tensor& input) {
    const auto& [weight, bias] = chain_.layers[layer];
    Kept& kept = kept_[layer];
    if (weight.grad().defined()) {
        weight.mutable_grad().addmm_(kept.output_grad.t(), input);
        bias.mutable_grad().add_(kept.output_grad.sum(0));
        return;
    }
    at::mm_out(kept.weight_grad, kept.output_grad.t(), input);
    at::sum_out(kept.bias_grad, kept.output_grad, 0);
    weight.mutable_grad() = kept.weight_grad;
    bias.mutable_grad() = kept.bias_grad;
}

void Mlp::backward(const at::Tensor& loss, const at::Tensor& gradient) {
    if (!label_.defined()) {
        return Model::backward(loss, gradient);
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    // d loss / d logits = (softmax - one_hot(label)) / N
    at::Tensor& logits_grad = kept_.back().output_grad;
    at::exp_out(logits_grad, log_probabilities_);
    logits_grad.scatter_add_(1, label_.unsqueeze(1), minus_one_);
    logits_grad.mul_(1.0 / static_cast<double>(input_.size(0)));
    if (gradient.defined()) {
        logits_grad.mul_(gradient);
    }
    for (std::size_t i = kept_.size(); i-- > 0;) {
        add_gradients(i, i == 0 ? input_ : kept_[i - 1].output);
        if (i > 0) {
            Kept& below = kept_[i - 1];
            at::mm_out(below.output_grad, kept_[i].output_grad, chain_.layers[i].weight);
            // ReLU's output is positive exactly where its input was.
            at::threshold_backward_out(below.output_grad, below.output_grad, below.output, 0);
        }
    }
    input_.reset();  // these may be a batch slot, which the loader waits for
    label_.reset();
}

}  // namespace stoker
