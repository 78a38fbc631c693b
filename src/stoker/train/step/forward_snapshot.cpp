// All buffers are copied, whether a pass changes them or not: updates of running statistics do not show in the tensors'
// version counters.
#include "stoker/train/step/forward_snapshot.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace stoker {

at::Tensor generator_state(at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
}

void set_generator_state(at::Generator generator, const at::Tensor& state) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
}

ForwardSnapshot::ForwardSnapshot(const Model& model, const at::Device& device) {
    for (const auto& [name, tensor] : model.buffers()) {
        if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
            continue;  // an expanded tensor, which cannot be written to
        }
        const auto type = tensor.scalar_type();
        auto same = std::ranges::find_if(buffers_, [&](const Buffers& b) { return b.live[0].scalar_type() == type; });
        if (same == buffers_.end()) {
            same = buffers_.insert(same, Buffers());
        }
        same->live.push_back(tensor);
        same->saved.push_back(at::empty_like(tensor));
    }
    generators_.push_back({at::globalContext().defaultGenerator(at::kCPU), {}});
    if (!device.is_cpu()) {
        generators_.push_back({at::globalContext().defaultGenerator(device), {}});
    }
}

void ForwardSnapshot::save() {
    const c10::NoGradGuard no_grad;
    for (Buffers& buffers : buffers_) {
        at::_foreach_copy_(buffers.saved, buffers.live, /*non_blocking=*/true);
    }
    for (SavedGenerator& saved : generators_) {
        saved.state = generator_state(saved.generator);
    }
}

void ForwardSnapshot::restore() {
    const c10::NoGradGuard no_grad;
    for (Buffers& buffers : buffers_) {
        at::_foreach_copy_(buffers.live, buffers.saved, /*non_blocking=*/true);
    }
    for (const SavedGenerator& saved : generators_) {
        set_generator_state(saved.generator, saved.state);
    }
}

}  // namespace stoker
