// Adam: Kingma and Ba, 2015, with L2 added to the gradient; AdamW: Loshchilov and Hutter, 2019, with decoupled decay;
// SGD with momentum as in torch.optim.SGD (dampening 0).
#include "stoker/train/step/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/models/name_pattern.h"

namespace stoker {
namespace {

std::vector<at::Tensor> pick(const std::vector<at::Tensor>& all, const std::vector<std::size_t>& which) {
    std::vector<at::Tensor> some;
    some.reserve(which.size());
    for (const std::size_t i : which) {
        some.push_back(all[i]);
    }
    return some;
}

constexpr std::string_view kNormsAndBiases = "norms_and_biases";

// Norms have one weight and one bias for each channel, so their parameters have one dimension, as biases do.
std::vector<bool> decaying(const std::vector<NamedTensor>& parameters, const std::vector<std::string>& without) {
    std::vector<bool> decays(parameters.size(), true);
    for (const std::string& pattern : without) {
        bool found = pattern == kNormsAndBiases;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const bool hit =
                pattern == kNormsAndBiases ? parameters[i].tensor.dim() <= 1 : matches(parameters[i].name, pattern);
            found = found || hit;
            decays[i] = decays[i] && !hit;
        }
        if (!found) {
            throw InvalidArgument({.where = "optimizer.no_decay",
                                   .expected = "the name of a parameter, a pattern such as \"bn*.weight\", or "
                                               "\"norms_and_biases\"",
                                   .got = "\"" + pattern + "\", which matches no trained parameter",
                                   .hint = parameters.empty() ? "" : "the first is " + parameters[0].name});
        }
    }
    return decays;
}

}  // namespace

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe, OptimizerKernel kernel)
    : recipe_(recipe),
      kernel_(kernel),
      parameters_(parameters),
      decays_(decaying(parameters, recipe.no_decay)),
      lr_value_(recipe.lr) {
    const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().tensor.device();
    lr_ = at::scalar_tensor(lr_value_, at::TensorOptions().dtype(at::kFloat).device(device));
    const bool momentum = is_adam() || recipe_.momentum != 0;
    for (const auto& [name, tensor] : parameters_) {
        if (momentum) {
            first_.push_back(at::zeros_like(tensor));
        }
        if (is_adam()) {
            second_.push_back(at::zeros_like(tensor));
        }
        steps_.push_back(at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device)));
    }
}

std::vector<at::Tensor> Optimizer::gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : parameters_) {
        if (tensor.grad().defined()) {
            all.push_back(tensor.grad());
        }
    }
    return all;
}

void Optimizer::step(const at::Tensor& found_inf) {
    const c10::NoGradGuard no_grad;
    std::vector<std::size_t> with_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i].tensor.grad().defined()) {
            with_grad.push_back(i);
        }
    }
    if (with_grad.empty()) {
        return;
    }
    std::vector<at::Tensor> steps = pick(steps_, with_grad);
    at::_foreach_add_(steps, 1);
    if (found_inf.defined()) {  // a skipped step does not count; the fused kernels skip by themselves
        at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), found_inf));
    }
    const auto rest =
        std::stable_partition(with_grad.begin(), with_grad.end(), [&](std::size_t i) { return decays_[i]; });
    const std::vector<std::size_t> groups[] = {{with_grad.begin(), rest}, {rest, with_grad.end()}};
    for (const auto& group : groups) {
        const double weight_decay = &group == &groups[0] ? recipe_.weight_decay : 0;
        if (group.empty()) {
            continue;
        }
        if (kernel_ == OptimizerKernel::fused) {
            fused_step(group, weight_decay, found_inf);
        } else if (!found_inf.defined() || found_inf.item<float>() == 0) {
            std::ranges::for_each(group, [&](std::size_t i) { single_tensor_step(i, weight_decay); });
        }
    }
}

void Optimizer::fused_step(const std::vector<std::size_t>& group, double weight_decay, const at::Tensor& found_inf) {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> grads;
    for (const std::size_t i : group) {
        parameters.push_back(parameters_[i].tensor);
        grads.push_back(parameters_[i].tensor.grad());
    }
    const std::optional<at::Tensor> skip = found_inf.defined() ? std::optional(found_inf) : std::nullopt;
    if (!is_adam()) {
        // With a momentum buffer of zeros the first step needs no special case: without dampening,
        // momentum * 0 + grad is the copy of grad that torch.optim starts with.
        at::_fused_sgd_(parameters, grads, first_.empty() ? std::vector<at::Tensor>{} : pick(first_, group),
                        weight_decay, recipe_.momentum, lr_, /*dampening=*/0, recipe_.nesterov, /*maximize=*/false,
                        /*is_first_step=*/false, /*grad_scale=*/{}, skip);
        return;
    }
    const auto first = pick(first_, group);
    const auto second = pick(second_, group);
    const auto steps = pick(steps_, group);
    const auto& r = recipe_;
    if (r.name == "adamw") {
        at::_fused_adamw_(parameters, grads, first, second, {}, steps, lr_, r.beta1, r.beta2, weight_decay, r.eps,
                          /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, skip);
    } else {
        at::_fused_adam_(parameters, grads, first, second, {}, steps, lr_, r.beta1, r.beta2, weight_decay, r.eps,
                         /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, skip);
    }
}

void Optimizer::single_tensor_step(std::size_t i, double weight_decay) {
    at::Tensor& parameter = parameters_[i].tensor;
    at::Tensor grad = parameter.grad();
    if (recipe_.name == "adamw") {
        parameter.mul_(1 - lr_value_ * weight_decay);
    } else if (weight_decay != 0) {
        grad = grad.add(parameter, weight_decay);
    }
    if (!is_adam()) {
        if (!first_.empty()) {
            first_[i].mul_(recipe_.momentum).add_(grad);
            grad = recipe_.nesterov ? grad.add(first_[i], recipe_.momentum) : first_[i];
        }
        parameter.add_(grad, -lr_value_);
        return;
    }
    const double t = steps_[i].item<double>();
    first_[i].lerp_(grad, 1 - recipe_.beta1);
    second_[i].mul_(recipe_.beta2).addcmul_(grad, grad, 1 - recipe_.beta2);
    const double correction1 = 1 - std::pow(recipe_.beta1, t);
    const double correction2 = std::sqrt(1 - std::pow(recipe_.beta2, t));
    const at::Tensor denominator = second_[i].sqrt().div_(correction2).add_(recipe_.eps);
    parameter.addcdiv_(first_[i], denominator, -lr_value_ / correction1);
}

void Optimizer::zero_grad() {
    for (auto& [name, tensor] : parameters_) {
        tensor.mutable_grad().reset();
    }
}

void Optimizer::set_lr(double lr) {
    if (lr != lr_value_) {
        lr_value_ = lr;
        lr_.fill_(lr);
    }
}

std::vector<at::Tensor> Optimizer::tensors() const {
    std::vector<at::Tensor> all = {lr_};
    for (const auto* list : {&first_, &second_, &steps_}) {
        all.insert(all.end(), list->begin(), list->end());
    }
    return all;
}

std::vector<NamedTensor> Optimizer::state() const {
    std::vector<NamedTensor> state;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const std::string& name = parameters_[i].name;
        state.push_back({"step." + name, steps_[i]});
        if (!first_.empty()) {
            state.push_back({(is_adam() ? "exp_avg." : "momentum_buffer.") + name, first_[i]});
        }
        if (!second_.empty()) {
            state.push_back({"exp_avg_sq." + name, second_[i]});
        }
    }
    return state;
}

void Optimizer::load(const std::vector<NamedTensor>& given) {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : state()) {
        const auto found = std::ranges::find(given, name, &NamedTensor::name);
        if (found == given.end() || found->tensor.sizes() != tensor.sizes()) {
            throw InvalidArgument({.where = "optimizer state",
                                   .expected = name + " of the parameter's shape",
                                   .got = found == given.end() ? "none" : "another shape",
                                   .hint = "resume with the optimizer and the model.freeze that the run began with"});
        }
        tensor.copy_(found->tensor);
    }
    const auto known = state();
    for (const auto& [name, tensor] : given) {
        if (std::ranges::find(known, name, &NamedTensor::name) == known.end()) {
            throw InvalidArgument({.where = "optimizer state",
                                   .expected = "only the state of " + recipe_.name,
                                   .got = name,
                                   .hint = "resume with the optimizer and the model.freeze that the run began with"});
        }
    }
}

}  // namespace stoker
