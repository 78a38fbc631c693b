// The graph reads and writes tensors that live as long as it does; a step's intermediate tensors lie in the graph's own
// memory pool.
#include "stoker/train/step/step_graph.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/bridge/torch_error.h"
#include "stoker/train/step/forward_snapshot.h"

namespace stoker {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// Images that are bytes are normalised within the step, with factors that the graph has.
bool same_late(const DeviceBatch& a, const DeviceBatch& b) {
    return a.late == b.late && std::ranges::equal(a.fields, b.fields, {}, &DeviceField::late, &DeviceField::late);
}

// Strides stay, so that the step is captured for the layout that batches have.
DeviceBatch empty_like(const DeviceBatch& batch) {
    DeviceBatch empty{.input = at::empty_like(batch.input), .input_name = batch.input_name, .late = batch.late};
    if (batch.target.defined()) {
        empty.target = at::empty_like(batch.target);
    }
    for (const DeviceField& field : batch.fields) {
        empty.fields.push_back({field.name, at::empty_like(field.tensor), field.late});
    }
    return empty;
}

}  // namespace

StepGraph::StepGraph(std::unique_ptr<DeviceGraph> graph, std::vector<at::Tensor> state)
    : graph_(std::move(graph)),
      state_(std::move(state)),
      reason_(fmt::format("a graph is made after {} steps on whole batches", kWarmUpSteps)) {}

bool StepGraph::run(const DeviceBatch& batch, const at::Tensor& loss, const StepFunction& step) {
    if (graph_ == nullptr || !accepts(batch)) {
        return false;
    }
    if (captured_ && addresses() != recorded_) {  // a parameter has got other memory
        captured_ = false;
    }
    const std::vector<at::Tensor> given = batch.tensors();
    const std::vector<at::Tensor> own = batch_.tensors();
    for (std::size_t i = 0; i < own.size(); ++i) {
        own[i].copy_(given[i], /*non_blocking=*/true);
    }
    if (!captured_ && !capture(step)) {
        return false;
    }
    graph_->replay();
    loss.copy_(loss_, /*non_blocking=*/true);
    return true;
}

// Also chooses the shape to capture: the largest so far, since a resumed run may begin with an epoch's smaller last
// batch.
bool StepGraph::accepts(const DeviceBatch& batch) {
    if (!captured_ && (!batch_.input.defined() || batch.size() > batch_.size())) {
        batch_ = empty_like(batch);
        loss_ = at::empty({}, batch.input.options().dtype(at::kFloat));
        seen_ = 0;
    }
    if (!std::ranges::equal(batch.tensors(), batch_.tensors(), same_layout) || !same_late(batch, batch_)) {
        return false;
    }
    return ++seen_ > kWarmUpSteps;
}

bool StepGraph::capture(const StepFunction& step) {
    const at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor before = generator_state(host);
    std::string problem;
    try {
        graph_->capture([this, step] { step(batch_, loss_); });
        problem = at::equal(generator_state(host), before) ? "" : "it draws at random on the host";
    } catch (const std::exception& error) {
        problem = first_sentence(first_line_of(error));
    }
    if (!problem.empty()) {
        set_generator_state(host, before);
        disable("the step cannot be captured: " + problem);
        return false;
    }
    recorded_ = addresses();
    captured_ = true;
    reason_.clear();
    return true;
}

void StepGraph::disable(std::string reason) {
    graph_.reset();
    batch_ = {};
    loss_ = at::Tensor();
    captured_ = false;
    reason_ = std::move(reason);
}

std::vector<const void*> StepGraph::addresses() const {
    std::vector<const void*> addresses;
    for (const at::Tensor& tensor : state_) {
        addresses.push_back(tensor.const_data_ptr());
    }
    return addresses;
}

}  // namespace stoker
