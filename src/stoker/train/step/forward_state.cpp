// Running statistics are not seen by version counters, so all buffers are copied, whether a pass will change them or
// not.
#include "stoker/train/step/forward_state.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace stoker {

at::Tensor state_of(at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
}

ForwardState::ForwardState(const Model& model, const at::Device& device) {
    for (const auto& [name, tensor] : model.buffers()) {
        if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
            continue;  // an expanded one, which nobody can write to
        }
        const auto type = tensor.scalar_type();
        auto same = std::ranges::find_if(buffers_, [&](const Buffers& b) { return b.own[0].scalar_type() == type; });
        if (same == buffers_.end()) {
            same = buffers_.insert(same, Buffers());
        }
        same->own.push_back(tensor);
        same->kept.push_back(at::empty_like(tensor));
    }
    draws_.push_back({at::globalContext().defaultGenerator(at::kCPU), {}});
    if (!device.is_cpu()) {
        draws_.push_back({at::globalContext().defaultGenerator(device), {}});
    }
}

void ForwardState::keep() {
    const c10::NoGradGuard no_grad;
    for (Buffers& buffers : buffers_) {
        at::_foreach_copy_(buffers.kept, buffers.own, /*non_blocking=*/true);
    }
    for (Draws& draws : draws_) {
        draws.state = state_of(draws.generator);
    }
}

void ForwardState::restore() {
    const c10::NoGradGuard no_grad;
    for (Buffers& buffers : buffers_) {
        at::_foreach_copy_(buffers.own, buffers.kept, /*non_blocking=*/true);
    }
    for (const Draws& draws : draws_) {
        set_state(draws.generator, draws.state);
    }
}

}  // namespace stoker
