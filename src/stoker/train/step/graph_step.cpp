// Graphs read and write tensors that live as long as they do, and batches where later batches lie, too. A step's
// intermediate tensors lie in the graphs' own memory pool.
#include "stoker/train/step/graph_step.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace stoker {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;
constexpr const char* kNoRoom = "the device's memory is too small for a graph beside other steps";

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// Images that are bytes are normalised within the step, with factors that the graph has.
bool same_late(const DeviceBatch& a, const DeviceBatch& b) {
    return a.late == b.late && std::ranges::equal(a.fields, b.fields, {}, &DeviceField::late, &DeviceField::late);
}

// The batch with `change` of each tensor.
template <typename Change>
DeviceBatch with_each(DeviceBatch batch, const Change& change) {
    batch.input = change(batch.input);
    if (batch.target.defined()) {
        batch.target = change(batch.target);
    }
    for (DeviceField& field : batch.fields) {
        field.tensor = change(field.tensor);
    }
    return batch;
}

// Strides stay, so that the step is captured for the layout that batches have.
at::Tensor empty_like(const at::Tensor& tensor) {
    return at::empty_like(tensor);
}

at::Tensor shape_of(const at::Tensor& tensor) {
    return at::empty_like(tensor, tensor.options().device(at::kMeta));
}

// The same memory, which may be used for other batches meanwhile.
at::Tensor not_owned(const at::Tensor& tensor) {
    return at::from_blob(
        tensor.data_ptr(), tensor.sizes(), tensor.strides(), [](void*) {}, tensor.options(), tensor.device());
}

std::vector<const void*> addresses(const std::vector<at::Tensor>& tensors) {
    std::vector<const void*> addresses;
    for (const at::Tensor& tensor : tensors) {
        addresses.push_back(tensor.const_data_ptr());
    }
    return addresses;
}

}  // namespace

GraphStep::GraphStep(RetryingStep&& eager, std::unique_ptr<DeviceGraphs> graphs)
    : RetryingStep(std::move(eager)),
      graphs_(std::move(graphs)),
      state_(memory()),
      reason_(fmt::format("a graph is made after {} steps on whole batches", kWarmUpSteps)) {}

void GraphStep::train(const DeviceBatch& batch, double lr, std::int64_t samples) {
    optimizer_.set_lr(lr);
    if (optimizer_.gradients().empty()) {  // else they are the caller's, for this step only
        const PhaseSpan span(account_, Phase::step);
        try {
            if (replay(batch)) {
                return;
            }
        } catch (const std::exception& error) {  // the graph's batch did not fit, or the launch: no weight has changed
            if (!is_out_of_memory(error)) {
                throw;
            }
            disable(kNoRoom);
        }
        optimizer_.zero_grad();  // a failed capture may have left some
    }
    RetryingStep::train(batch, lr, samples);
}

bool GraphStep::replay(const DeviceBatch& batch) {
    if (graphs_ == nullptr || !accepts(batch)) {
        return false;
    }
    if (captured_ > 0 && addresses(state_) != recorded_) {  // a parameter has got other memory
        invalidate();
    }
    const std::size_t number = input_for(batch);
    if (number == captured_ && !capture()) {
        return false;
    }
    graphs_->replay(number);
    last_loss().copy_(loss_, /*non_blocking=*/true);
    return true;
}

std::string GraphStep::compiled() const {
    if (captured_ == 0) {
        return "eager: " + reason_;
    }
    return fmt::format("graph{}{}", fused_ ? ", fused" : "",
                       why_one_.empty() ? "" : fmt::format(", which batches are copied for: {}", why_one_));
}

bool GraphStep::free_graph() {
    const bool had_memory = captured_ > 0;
    if (had_memory) {
        disable(kNoRoom);
    }
    return had_memory;
}

void GraphStep::accumulate_at_least(std::int64_t parts, std::int64_t samples) {
    if (parts > accumulate()) {
        RetryingStep::accumulate_at_least(parts, samples);
        invalidate();
    }
}

// Also chooses the shape to capture: the largest so far, since a resumed run may begin with an epoch's smaller last
// batch.
bool GraphStep::accepts(const DeviceBatch& batch) {
    if (captured_ == 0 && (!shape_.input.defined() || batch.size() > shape_.size())) {
        shape_ = with_each(batch, shape_of);
        loss_ = at::empty({}, batch.input.options().dtype(at::kFloat));
        seen_ = 0;
    }
    if (!std::ranges::equal(batch.tensors(), shape_.tensors(), same_layout) || !same_late(batch, shape_)) {
        return false;
    }
    return ++seen_ > kWarmUpSteps;
}

// The number of the input that is this batch, or a copy of it. A new one comes last and has no graph yet.
std::size_t GraphStep::input_for(const DeviceBatch& batch) {
    const std::vector<at::Tensor> given = batch.tensors();
    if (batch.in_slot) {
        const auto found = std::ranges::find_if(inputs_, [place = addresses(given)](const DeviceBatch& input) {
            return input.in_slot && addresses(input.tensors()) == place;
        });
        if (found != inputs_.end()) {
            return static_cast<std::size_t>(found - inputs_.begin());
        }
        if (std::ranges::count(inputs_, true, &DeviceBatch::in_slot) < most_slots_) {
            inputs_.push_back(with_each(batch, not_owned));
            return inputs_.size() - 1;
        }
    }
    const auto found = std::ranges::find(inputs_, false, &DeviceBatch::in_slot);
    const auto number = static_cast<std::size_t>(found - inputs_.begin());
    DeviceBatch own = found != inputs_.end() ? *found : with_each(batch, empty_like);
    own.in_slot = false;
    const std::vector<at::Tensor> copies = own.tensors();
    for (std::size_t i = 0; i < copies.size(); ++i) {
        copies[i].copy_(given[i], /*non_blocking=*/true);
    }
    if (number == inputs_.size()) {
        inputs_.push_back(std::move(own));
    }
    return number;
}

// Captures the step on the last input. Where there is no room for a further graph, the next step captures a single one.
bool GraphStep::capture() {
    const at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor before = generator_state(host);
    std::string problem;
    try {
        graphs_->capture([this, input = inputs_.back(), loss = loss_] {
            fused_ = run_kernels(input, loss);
            if (!fused_) {
                apply(gradients(input, input.size(), loss));
            }
        });
        problem = at::equal(generator_state(host), before) ? "" : "it draws at random on the host";
    } catch (const std::exception& error) {
        problem = first_sentence(first_line_of(error));
    }
    if (!problem.empty()) {
        set_generator_state(host, before);
        if (captured_ > 0) {
            invalidate();
            most_slots_ = 0;
            why_one_ = std::move(problem);
            reason_ = "a graph that all batches are copied for is made next";
        } else {
            disable("the step cannot be captured: " + problem);
        }
        return false;
    }
    recorded_ = addresses(state_);
    ++captured_;
    reason_.clear();
    return true;
}

void GraphStep::invalidate() {
    if (graphs_ != nullptr) {
        graphs_->clear();
    }
    inputs_.clear();
    captured_ = 0;
}

void GraphStep::disable(std::string reason) {
    invalidate();
    graphs_.reset();
    shape_ = {};
    loss_ = at::Tensor();
    reason_ = std::move(reason);
}

}  // namespace stoker
