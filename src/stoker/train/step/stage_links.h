// The messages between the stages of a model that is divided into them (train.mesh.pp): activations go to the stage
// after, their gradients to the stage before. Both sides know the shapes, so nothing but the values is sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stoker/dist/group.h"

namespace stoker {

// What passes from one stage to the next, for one sample.
struct StageBoundary {
    std::vector<std::int64_t> shape = {};
    at::ScalarType type = at::kFloat;
    at::MemoryFormat format = at::MemoryFormat::Contiguous;  // of the whole batch
    at::Device device = at::kCPU;
};

struct StageShapes {
    StageBoundary input = {};   // unused by the first stage
    StageBoundary output = {};  // unused by the last stage
};

// A direction has one message under way: a further send waits for it. So a stage holds no more activations than its
// schedule says.
class StageLinks {
  public:
    // The ranks of `stages` are the stages of one copy of the model, in order. It must outlive this object.
    StageLinks(const Group& stages, StageShapes shapes) : stages_(stages), shapes_(std::move(shapes)) {}

    bool first() const { return stages_.first(); }
    bool last() const { return stages_.rank() + 1 == stages_.size(); }

    // The input of this stage, and the gradient of its output, (samples, ...). They wait for the neighbour.
    at::Tensor receive_input(std::int64_t samples) const;
    at::Tensor receive_gradient(std::int64_t samples) const;
    // Both throw InternalError for another shape or type than the neighbour expects.
    void send_output(const at::Tensor& output);
    void send_gradient(const at::Tensor& gradient);
    // Waits until the neighbours have received all.
    void flush();

  private:
    at::Tensor receive(const StageBoundary& boundary, std::int64_t samples, int from) const;
    void send(const at::Tensor& values, const StageBoundary& boundary, int to, std::function<void()>& under_way) const;

    const Group& stages_;
    StageShapes shapes_;
    std::function<void()> output_under_way_;  // waits for it; null: none
    std::function<void()> gradient_under_way_;
};

}  // namespace stoker
