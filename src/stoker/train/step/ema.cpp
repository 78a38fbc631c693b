// Swapping exchanges the tensors' memory and copies nothing.
#include "stoker/train/step/ema.h"

#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "stoker/base/error.h"

namespace stoker {

Ema::Ema(const std::vector<NamedTensor>& state, double decay) : model_(state), decay_(decay) {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model_) {
        average_.push_back(tensor.detach().clone());
        if (tensor.is_floating_point()) {
            model_floats_.push_back(tensor);
            floats_.push_back(average_.back());
        }
    }
}

void Ema::update() {
    const c10::NoGradGuard no_grad;
    if (averages()) {
        at::_foreach_lerp_(floats_, model_floats_, 1 - decay_);
    }
}

void Ema::swap() {
    for (std::size_t i = 0; i < model_.size(); ++i) {
        at::Tensor& own = model_[i].tensor;
        if (!own.is_floating_point()) {
            continue;
        }
        const at::Tensor before = own.detach();
        own.set_data(average_[i]);
        average_[i].set_data(before);
    }
}

std::vector<NamedTensor> Ema::state() const {
    std::vector<NamedTensor> state;
    for (std::size_t i = 0; i < model_.size(); ++i) {
        const bool own = model_[i].tensor.is_floating_point();
        state.push_back({model_[i].name, own ? average_[i] : model_[i].tensor});
    }
    return state;
}

void Ema::load(const std::vector<NamedTensor>& given) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < model_.size(); ++i) {
        const auto found = std::ranges::find(given, model_[i].name, &NamedTensor::name);
        if (found == given.end() || found->tensor.sizes() != average_[i].sizes()) {
            throw InvalidArgument({.where = "averaged weights",
                                   .expected = model_[i].name + " of the model's shape",
                                   .got = found == given.end() ? "none" : "another shape",
                                   .hint = "resume with the recipe that the run began with"});
        }
        average_[i].copy_(found->tensor);
    }
}

}  // namespace stoker
