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
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/threshold_backward.h>

#include "stoker/models/init.h"

namespace stoker {

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t classes, at::Generator& generator) {
    std::vector<std::int64_t> widths = hidden;
    widths.push_back(classes);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string name = "fc" + std::to_string(i + 1);
        const at::Tensor weight = parameter(name + ".weight", default_uniform({widths[i], inputs}, inputs, generator));
        const at::Tensor bias = parameter(name + ".bias", default_uniform({widths[i]}, inputs, generator));
        layers_.push_back({.weight = weight, .bias = bias});
        inputs = widths[i];
    }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
    at::Tensor x = input.flatten(1);  // (N, inputs)
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        x = at::linear(x, layers_[i].weight, layers_[i].bias);
        if (i + 1 < layers_.size()) {
            x = at::relu(x);
        }
    }
    return x;  // (N, classes)
}

void Mlp::prepare(const at::Tensor& input) {
    const std::int64_t batch = input.size(0);
    for (auto& layer : layers_) {
        if (layer.output.defined() && layer.output.size(0) == batch && layer.output.device() == input.device()) {
            continue;
        }
        layer.output = at::empty({batch, layer.weight.size(0)}, input.options());
        layer.output_grad = at::empty_like(layer.output);
        layer.weight_grad = at::empty_like(layer.weight);
        layer.bias_grad = at::empty_like(layer.bias);
    }
    if (!minus_one_.defined() || minus_one_.size(0) != batch || minus_one_.device() != input.device()) {
        minus_one_ = at::full({batch, 1}, -1.0, input.options());
    }
    log_probabilities_ = layers_.back().output;  // log_softmax runs in place
}

at::Tensor Mlp::loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options) {
    if (options.label_smoothing != 0 || at::autocast::is_autocast_enabled(input.device().type())) {
        label_.reset();
        return Model::loss(input, label, options);
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    input_ = input.flatten(1);
    label_ = label;
    prepare(input_);
    const at::Tensor* x = &input_;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
        Linear& layer = layers_[i];
        at::addmm_out(layer.output, layer.bias, *x, layer.weight.t());
        if (i + 1 < layers_.size()) {
            layer.output.relu_();
        }
        x = &layer.output;
    }
    at::_log_softmax_out(log_probabilities_, layers_.back().output, 1, /*half_to_float=*/false);
    return at::nll_loss(log_probabilities_, label_);
}

// To those of earlier micro-batches, where there are any.
void Mlp::add_gradients(Linear& layer, const at::Tensor& input) {
    if (layer.weight.grad().defined()) {
        layer.weight.mutable_grad().addmm_(layer.output_grad.t(), input);
        layer.bias.mutable_grad().add_(layer.output_grad.sum(0));
        return;
    }
    at::mm_out(layer.weight_grad, layer.output_grad.t(), input);
    at::sum_out(layer.bias_grad, layer.output_grad, 0);
    layer.weight.mutable_grad() = layer.weight_grad;
    layer.bias.mutable_grad() = layer.bias_grad;
}

void Mlp::backward(const at::Tensor& loss, const at::Tensor& gradient) {
    if (!label_.defined()) {
        return Model::backward(loss, gradient);
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    // d loss / d logits = (softmax - one_hot(label)) / N
    at::Tensor& logits_grad = layers_.back().output_grad;
    at::exp_out(logits_grad, log_probabilities_);
    logits_grad.scatter_add_(1, label_.unsqueeze(1), minus_one_);
    logits_grad.mul_(1.0 / static_cast<double>(input_.size(0)));
    if (gradient.defined()) {
        logits_grad.mul_(gradient);
    }
    for (std::size_t i = layers_.size(); i-- > 0;) {
        Linear& layer = layers_[i];
        add_gradients(layer, i == 0 ? input_ : layers_[i - 1].output);
        if (i > 0) {
            Linear& below = layers_[i - 1];
            at::mm_out(below.output_grad, layer.output_grad, layer.weight);
            // ReLU's output is positive exactly where its input was.
            at::threshold_backward_out(below.output_grad, below.output_grad, below.output, 0);
        }
    }
    input_.reset();  // these may be a batch slot, which the loader waits for
    label_.reset();
}

}  // namespace stoker
