// Adam: Kingma and Ba, 2015, with L2 in the gradient; AdamW: Loshchilov and Hutter, 2019, decay apart
// from it; SGD with momentum as torch.optim.SGD defines it (dampening 0).
#include "stoker/train/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "stoker/base/error.h"

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

}  // namespace

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe, OptimizerKernel kernel)
    : recipe_(recipe), kernel_(kernel), parameters_(parameters), lr_value_(recipe.lr) {
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

void Optimizer::step() {
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
    at::_foreach_add_(pick(steps_, with_grad), 1);
    if (kernel_ == OptimizerKernel::fused) {
        fused_step(with_grad);
    } else {
        std::for_each(with_grad.begin(), with_grad.end(), [&](std::size_t i) { single_tensor_step(i); });
    }
}

void Optimizer::fused_step(const std::vector<std::size_t>& with_grad) {
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> grads;
    for (const std::size_t i : with_grad) {
        parameters.push_back(parameters_[i].tensor);
        grads.push_back(parameters_[i].tensor.grad());
    }
    if (!is_adam()) {
        // A momentum buffer of zeros makes the first step like any other: without dampening,
        // momentum * 0 + grad is the copy of grad that torch.optim begins with.
        at::_fused_sgd_(parameters, grads, first_.empty() ? std::vector<at::Tensor>{} : pick(first_, with_grad),
                        recipe_.weight_decay, recipe_.momentum, lr_, /*dampening=*/0, recipe_.nesterov,
                        /*maximize=*/false, /*is_first_step=*/false);
        return;
    }
    const auto first = pick(first_, with_grad);
    const auto second = pick(second_, with_grad);
    const auto steps = pick(steps_, with_grad);
    const auto& r = recipe_;
    if (r.name == "adamw") {
        at::_fused_adamw_(parameters, grads, first, second, {}, steps, lr_, r.beta1, r.beta2, r.weight_decay, r.eps,
                          /*amsgrad=*/false, /*maximize=*/false);
    } else {
        at::_fused_adam_(parameters, grads, first, second, {}, steps, lr_, r.beta1, r.beta2, r.weight_decay, r.eps,
                         /*amsgrad=*/false, /*maximize=*/false);
    }
}

void Optimizer::single_tensor_step(std::size_t i) {
    at::Tensor& parameter = parameters_[i].tensor;
    at::Tensor grad = parameter.grad();
    if (recipe_.name == "adamw") {
        parameter.mul_(1 - lr_value_ * recipe_.weight_decay);
    } else if (recipe_.weight_decay != 0) {
        grad = grad.add(parameter, recipe_.weight_decay);
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
                                   .hint = "resume with the optimizer that the run began with"});
        }
        tensor.copy_(found->tensor);
    }
    const auto own = state();
    for (const auto& [name, tensor] : given) {
        if (std::ranges::find(own, name, &NamedTensor::name) == own.end()) {
            throw InvalidArgument({.where = "optimizer state",
                                   .expected = "nothing that " + recipe_.name + " does not keep",
                                   .got = name,
                                   .hint = "resume with the optimizer that the run began with"});
        }
    }
}

}  // namespace stoker
