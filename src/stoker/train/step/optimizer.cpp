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
#include <iterator>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/models/name_pattern.h"

namespace stoker {
namespace {

constexpr std::string_view kNormsAndBiases = "norms_and_biases";

// Norms have one weight and one bias for each channel, so their parameters have one dimension, as biases do.
bool is_named(const NamedTensor& parameter, const std::string& pattern) {
    return pattern == kNormsAndBiases ? parameter.tensor.dim() <= 1 : matches(parameter.name, pattern);
}

bool names_any(const std::vector<NamedTensor>& parameters, const std::string& pattern) {
    return pattern == kNormsAndBiases ||
           std::ranges::any_of(parameters, [&](const NamedTensor& parameter) { return is_named(parameter, pattern); });
}

std::vector<bool> decaying(const std::vector<NamedTensor>& parameters, const std::vector<std::string>& without) {
    std::vector<bool> decays;
    for (const NamedTensor& parameter : parameters) {
        decays.push_back(
            std::ranges::none_of(without, [&](const std::string& pattern) { return is_named(parameter, pattern); }));
    }
    return decays;
}

constexpr const char* kSecond = "exp_avg_sq.";

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
    std::vector<at::Tensor> tensors;
    std::ranges::transform(parameters, std::back_inserter(tensors), &NamedTensor::tensor);
    return tensors;
}

[[noreturn]] void refuse_state(const std::string& expected, const std::string& got) {
    throw InvalidArgument({.where = "optimizer state",
                           .expected = expected,
                           .got = got,
                           .hint = "resume with the optimizer and the model.freeze that the run began with"});
}

const at::Tensor& find_state(const std::vector<NamedTensor>& given, const std::string& name, at::IntArrayRef sizes) {
    const auto found = std::ranges::find(given, name, &NamedTensor::name);
    if (found == given.end() || found->tensor.sizes() != sizes) {
        refuse_state(name + " of the parameter's shape", found == given.end() ? "none" : "another shape");
    }
    return found->tensor;
}

}  // namespace

at::Tensor Optimizer::Trained::of(const at::Tensor& whole, const at::Tensor& like) const {
    return piece ? ParameterShards::part(ParameterShards::laid_out_like(whole, like), *piece) : whole;
}

void require_patterns(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe) {
    const auto require = [&](const char* key, const std::string& pattern, const char* expected) {
        if (!names_any(parameters, pattern)) {
            throw InvalidArgument({.where = key,
                                   .expected = expected,
                                   .got = "\"" + pattern + "\", which matches no trained parameter",
                                   .hint = parameters.empty() ? "" : "the first is " + parameters[0].name});
        }
    };
    for (const std::string& pattern : recipe.no_decay) {
        require("optimizer.no_decay", pattern,
                "the name of a parameter, a pattern such as \"bn*.weight\", or \"norms_and_biases\"");
    }
    for (const LrScale& scale : recipe.lr_scales) {
        require("optimizer.lr_scales", scale.pattern, "the name of a parameter, or a pattern such as \"layer1.*\"");
    }
}

OptimizerRecipe stage_recipe(OptimizerRecipe recipe, const std::vector<NamedTensor>& parameters) {
    std::erase_if(recipe.no_decay, [&](const std::string& pattern) { return !names_any(parameters, pattern); });
    std::erase_if(recipe.lr_scales, [&](const LrScale& scale) { return !names_any(parameters, scale.pattern); });
    return recipe;
}

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe, OptimizerKernel kernel,
                     const Group* shards, FullyShardedModel* full)
    : recipe_(recipe),
      kernel_(kernel),
      parameters_(parameters),
      decays_(decaying(parameters, recipe.no_decay)),
      full_(full),
      lr_value_(recipe.lr) {
    require_patterns(parameters, recipe);
    const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().tensor.device();
    const at::TensorOptions scalar = at::TensorOptions().dtype(at::kFloat).device(device);
    rates_.push_back({.lr = at::scalar_tensor(lr_value_, scalar)});
    for (const LrScale& scale : recipe.lr_scales) {
        rates_.push_back({.factor = scale.factor, .lr = at::scalar_tensor(lr_value_ * scale.factor, scalar)});
    }
    for (const NamedTensor& parameter : parameters) {
        steps_.push_back(at::zeros({}, scalar));
        const auto scale = std::ranges::find_if(
            recipe.lr_scales, [&](const LrScale& each) { return matches(parameter.name, each.pattern); });
        const auto index = static_cast<std::size_t>(scale - recipe.lr_scales.begin());
        rate_of_.push_back(scale == recipe.lr_scales.end() ? 0 : index + 1);
    }
    if (full != nullptr) {
        shards_.emplace(full->trained_pieces());
        const std::vector<at::Tensor> own = full->trained();
        for (std::size_t i = 0; i < own.size(); ++i) {
            const ParameterPiece& piece = shards_->own()[i];
            trained_.push_back({.parameter = piece.parameter, .piece = piece, .shard = own[i]});
        }
    } else if (shards != nullptr && !shards->alone()) {
        shards_.emplace(*shards, tensors_of(parameters));
        for (const ParameterPiece& piece : shards_->own()) {
            trained_.push_back({.parameter = piece.parameter, .piece = piece});
        }
    } else {
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            trained_.push_back({.parameter = i, .piece = std::nullopt});
        }
    }
    for (Trained& trained : trained_) {
        if (has_first()) {
            trained.first = at::zeros_like(value(trained));
        }
        if (is_adam()) {
            trained.second = at::zeros_like(value(trained));
        }
    }
}

at::Tensor Optimizer::value(const Trained& trained) const {
    const at::Tensor& parameter = parameters_[trained.parameter].tensor;
    return trained.shard.defined() ? trained.shard : trained.of(parameter, parameter);
}

at::Tensor Optimizer::gradient(const Trained& trained) const {
    const at::Tensor& parameter = parameters_[trained.parameter].tensor;
    return trained.shard.defined() ? trained.shard.grad() : trained.of(parameter.grad(), parameter);
}

bool Optimizer::has_gradient(std::size_t parameter) const {
    return full_ != nullptr ? full_->has_gradients() : parameters_[parameter].tensor.grad().defined();
}

std::vector<at::Tensor> Optimizer::gradients() const {
    std::vector<at::Tensor> all;
    const auto add = [&](const at::Tensor& of) {
        if (of.grad().defined()) {
            all.push_back(of.grad());
        }
    };
    if (full_ != nullptr) {
        std::ranges::for_each(trained_, add, &Trained::shard);
    } else {
        std::ranges::for_each(parameters_, add, &NamedTensor::tensor);
    }
    return all;
}

void Optimizer::step(const at::Tensor& found_inf) {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> steps;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (has_gradient(i)) {
            steps.push_back(steps_[i]);
        }
    }
    if (steps.empty()) {
        return;
    }
    at::_foreach_add_(steps, 1);
    if (found_inf.defined()) {  // a skipped step does not count; the fused kernels skip it themselves
        at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), found_inf));
    }
    for (const Alike& group : alike()) {
        if (kernel_ == OptimizerKernel::fused) {
            fused_step(group, found_inf);
        } else if (!found_inf.defined() || found_inf.item<float>() == 0) {
            std::ranges::for_each(group.trained, [&](std::size_t i) { single_tensor_step(trained_[i], group); });
        }
    }
}

// Those with a gradient, by learning rate and decay.
std::vector<Optimizer::Alike> Optimizer::alike() const {
    std::vector<Alike> groups;
    for (std::size_t i = 0; i < trained_.size(); ++i) {
        const std::size_t parameter = trained_[i].parameter;
        if (!has_gradient(parameter)) {
            continue;
        }
        auto group = std::ranges::find_if(groups, [&](const Alike& each) {
            return each.rate == rate_of_[parameter] && each.decays == decays_[parameter];
        });
        if (group == groups.end()) {
            group = groups.insert(group, {.rate = rate_of_[parameter], .decays = decays_[parameter]});
        }
        group->trained.push_back(i);
    }
    return groups;
}

void Optimizer::fused_step(const Alike& group, const at::Tensor& found_inf) {
    const at::Tensor& lr = rates_[group.rate].lr;
    const double weight_decay = group.decays ? recipe_.weight_decay : 0;
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> first;
    std::vector<at::Tensor> second;
    std::vector<at::Tensor> steps;
    for (const std::size_t i : group.trained) {
        const Trained& trained = trained_[i];
        values.push_back(value(trained));
        grads.push_back(gradient(trained));
        steps.push_back(steps_[trained.parameter]);
        if (trained.first.defined()) {
            first.push_back(trained.first);
        }
        if (trained.second.defined()) {
            second.push_back(trained.second);
        }
    }
    const std::optional<at::Tensor> skip = found_inf.defined() ? std::optional(found_inf) : std::nullopt;
    if (!is_adam()) {
        // With a momentum buffer of zeros the first step needs no special case: without dampening,
        // momentum * 0 + grad is the copy of grad that torch.optim starts with.
        at::_fused_sgd_(values, grads, first, weight_decay, recipe_.momentum, lr, /*dampening=*/0, recipe_.nesterov,
                        /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, skip);
        return;
    }
    const auto& r = recipe_;
    if (r.name == "adamw") {
        at::_fused_adamw_(values, grads, first, second, {}, steps, lr, r.beta1, r.beta2, weight_decay, r.eps,
                          /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, skip);
    } else {
        at::_fused_adam_(values, grads, first, second, {}, steps, lr, r.beta1, r.beta2, weight_decay, r.eps,
                         /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, skip);
    }
}

void Optimizer::single_tensor_step(const Trained& trained, const Alike& group) {
    const double lr = lr_value_ * rates_[group.rate].factor;
    const double weight_decay = group.decays ? recipe_.weight_decay : 0;
    const at::Tensor parameter = value(trained);
    at::Tensor grad = gradient(trained);
    if (recipe_.name == "adamw") {
        parameter.mul_(1 - lr * weight_decay);
    } else if (weight_decay != 0) {
        grad = grad.add(parameter, weight_decay);
    }
    const at::Tensor& first = trained.first;
    if (!is_adam()) {
        if (first.defined()) {
            first.mul_(recipe_.momentum).add_(grad);
            grad = recipe_.nesterov ? grad.add(first, recipe_.momentum) : first;
        }
        parameter.add_(grad, -lr);
        return;
    }
    const at::Tensor& second = trained.second;
    const double t = steps_[trained.parameter].item<double>();
    first.lerp_(grad, 1 - recipe_.beta1);
    second.mul_(recipe_.beta2).addcmul_(grad, grad, 1 - recipe_.beta2);
    const double correction1 = 1 - std::pow(recipe_.beta1, t);
    const double correction2 = std::sqrt(1 - std::pow(recipe_.beta2, t));
    const at::Tensor denominator = second.sqrt().div_(correction2).add_(recipe_.eps);
    parameter.addcdiv_(first, denominator, -lr / correction1);
}

void Optimizer::gather_parameters() const {
    shards_->all_gather(tensors_of(parameters_));
}

void Optimizer::zero_grad() {
    if (full_ != nullptr) {
        full_->zero_grad();
    }
    for (auto& [name, tensor] : parameters_) {
        tensor.mutable_grad().reset();
    }
}

void Optimizer::set_lr(double lr) {
    if (lr != lr_value_) {
        lr_value_ = lr;
        for (const Rate& rate : rates_) {
            rate.lr.fill_(lr * rate.factor);
        }
    }
}

// Undefined tensors are left out.
std::vector<at::Tensor> Optimizer::own(at::Tensor Trained::*member) const {
    std::vector<at::Tensor> all;
    for (const Trained& trained : trained_) {
        if ((trained.*member).defined()) {
            all.push_back(trained.*member);
        }
    }
    return all;
}

std::vector<at::Tensor> Optimizer::tensors() const {
    std::vector<at::Tensor> all;
    std::ranges::transform(rates_, std::back_inserter(all), &Rate::lr);
    for (const auto& list : {own(&Trained::first), own(&Trained::second), steps_}) {
        all.insert(all.end(), list.begin(), list.end());
    }
    return all;
}

// One for each parameter; none if the optimiser lacks such state, or for another rank than 0.
std::vector<at::Tensor> Optimizer::whole(bool has, at::Tensor Trained::*member) const {
    if (!has) {
        return {};
    }
    return shards_ ? shards_->gather(own(member)) : own(member);
}

std::vector<NamedTensor> Optimizer::state() const {
    const std::vector<at::Tensor> first = whole(has_first(), &Trained::first);
    const std::vector<at::Tensor> second = whole(is_adam(), &Trained::second);
    std::vector<NamedTensor> state;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const std::string& name = parameters_[i].name;
        state.push_back({"step." + name, steps_[i]});
        if (i < first.size()) {
            state.push_back({first_name(name), first[i]});
        }
        if (i < second.size()) {
            state.push_back({kSecond + name, second[i]});
        }
    }
    return state;
}

StateParts Optimizer::parts() const {
    StateParts parts;
    std::vector<std::size_t> first;
    std::vector<std::size_t> second;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const auto& [name, parameter] = parameters_[i];
        parts.add_whole({{"step." + name, steps_[i]}}, shards_->group().first());
        if (has_first()) {
            first.push_back(parts.add(first_name(name), parameter));
        }
        if (is_adam()) {
            second.push_back(parts.add(kSecond + name, parameter));
        }
    }
    if (has_first()) {
        parts.add_pieces(shards_->in_row_major(own(&Trained::first)), first);
    }
    if (is_adam()) {
        parts.add_pieces(shards_->in_row_major(own(&Trained::second)), second);
    }
    return parts;
}

void Optimizer::load(const std::vector<NamedTensor>& given) {
    const c10::NoGradGuard no_grad;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const auto& [name, parameter] = parameters_[i];
        known.push_back("step." + name);
        steps_[i].copy_(find_state(given, known.back(), {}));
        if (has_first()) {
            known.push_back(first_name(name));
            load_part(&Trained::first, i, find_state(given, known.back(), parameter.sizes()));
        }
        if (is_adam()) {
            known.push_back(kSecond + name);
            load_part(&Trained::second, i, find_state(given, known.back(), parameter.sizes()));
        }
    }
    for (const auto& [name, tensor] : given) {
        if (std::ranges::find(known, name) == known.end()) {
            refuse_state("only the state of " + recipe_.name, name);
        }
    }
}

// Copies this rank's elements of the state of a parameter, if it has any.
void Optimizer::load_part(at::Tensor Trained::*member, std::size_t parameter, const at::Tensor& given) {
    const auto trained = std::ranges::find(trained_, parameter, &Trained::parameter);
    if (trained != trained_.end()) {
        ((*trained).*member).copy_(trained->of(given, parameters_[parameter].tensor));
    }
}

}  // namespace stoker
