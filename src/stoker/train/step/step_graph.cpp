// What the graph reads and writes lies in tensors that live as long as it does; everything else that a step makes lives
// in the graph's own memory.
#include "stoker/train/step/step_graph.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>

#include <fmt/format.h>
#include <utility>

#include "stoker/bridge/torch_error.h"
#include "stoker/train/step/forward_state.h"

namespace stoker {
namespace {

constexpr std::int64_t kWarmUp = 3;  // steps

bool same_form(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

StepGraph::StepGraph(std::unique_ptr<DeviceGraph> graph, std::vector<at::Tensor> state)
    : graph_(std::move(graph)),
      state_(std::move(state)),
      why_not_(fmt::format("a graph is made after {} steps on whole batches", kWarmUp)) {}

bool StepGraph::run(const DeviceBatch& batch, const at::Tensor& loss, const WholeStep& step) {
    if (graph_ == nullptr || !suits(batch)) {
        return false;
    }
    if (captured_ && memory() != recorded_) {  // somebody gave a parameter other memory
        captured_ = false;
    }
    batch_.image.copy_(batch.image, /*non_blocking=*/true);
    batch_.label.copy_(batch.label, /*non_blocking=*/true);
    if (!captured_ && !capture(step)) {
        return false;
    }
    graph_->replay();
    loss.copy_(loss_, /*non_blocking=*/true);
    return true;
}

// Chooses the shape that counts, too: a run that goes on within an epoch may begin with its smallest batch.
bool StepGraph::suits(const DeviceBatch& batch) {
    if (!captured_ && (!batch_.label.defined() || batch.label.size(0) > batch_.label.size(0))) {
        batch_ = {at::empty_like(batch.image), at::empty_like(batch.label)};
        loss_ = at::empty({}, batch.image.options().dtype(at::kFloat));
        seen_ = 0;
    }
    if (!same_form(batch.image, batch_.image) || !same_form(batch.label, batch_.label)) {
        return false;
    }
    return ++seen_ > kWarmUp;
}

bool StepGraph::capture(const WholeStep& step) {
    const at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor drawn = state_of(host);
    std::string trouble;
    try {
        graph_->capture([this, step] { step(batch_, loss_); });
        trouble = at::equal(state_of(host), drawn) ? "" : "it draws at random on the host";
    } catch (const std::exception& error) {
        trouble = first_sentence(first_line_of(error));
    }
    if (!trouble.empty()) {
        set_state(host, drawn);
        give_up("the step cannot be captured: " + trouble);
        return false;
    }
    recorded_ = memory();
    captured_ = true;
    why_not_.clear();
    return true;
}

void StepGraph::give_up(std::string why) {
    graph_.reset();
    batch_ = {};
    loss_ = at::Tensor();
    captured_ = false;
    why_not_ = std::move(why);
}

std::vector<const void*> StepGraph::memory() const {
    std::vector<const void*> memory;
    for (const at::Tensor& tensor : state_) {
        memory.push_back(tensor.const_data_ptr());
    }
    return memory;
}

}  // namespace stoker
