// A training step as a CUDA graph: captured once (bridge/torch_cuda.h) and replayed for each batch of the same shape,
// which saves the host the launches of some hundred operations. A graph reads its batch at fixed addresses, so each
// slot of a DeviceCopier gets one; a batch that lies elsewhere is copied into memory that a further graph reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/torch_cuda.h"

namespace stoker {

class StepGraph {
  public:
    // A step from a batch to updated weights that writes the batch's mean loss into `loss`. Only the batch changes from
    // replay to replay; learning rate, scale and step counts must be tensors.
    using StepFunction = std::function<void(const DeviceBatch& batch, const at::Tensor& loss)>;

    // `state`: all tensors besides the batch that a step reads or writes.
    StepGraph(std::unique_ptr<DeviceGraphs> graphs, std::vector<at::Tensor> state);

    // Runs `step` on the batch and writes its loss into `loss`. Returns false if it did nothing and the caller must run
    // the step itself: during the first steps, in which libraries choose algorithms and allocate memory, for batches of
    // another shape than the largest, and after a capture failed. A capture also fails if the step draws random numbers
    // on the host, because every replay would repeat them.
    bool run(const DeviceBatch& batch, const at::Tensor& loss, const StepFunction& step);

    // The next steps are captured again.
    void invalidate();
    // Frees all graphs and captures no other.
    void disable(std::string reason);

    bool captured() const { return captured_ > 0; }
    // Why nothing is captured, or nothing yet.
    const std::string& reason() const { return reason_; }
    // Why one graph serves all batches, which are copied for it; empty where each slot may have one.
    const std::string& why_one() const { return why_one_; }

  private:
    bool accepts(const DeviceBatch& batch);
    std::size_t input_for(const DeviceBatch& batch);
    bool capture(const StepFunction& step);

    std::unique_ptr<DeviceGraphs> graphs_;  // null: disabled
    std::vector<at::Tensor> state_;
    std::string reason_;
    std::string why_one_;
    DeviceBatch shape_;                // of the batches to capture, without memory
    std::vector<DeviceBatch> inputs_;  // the input of each graph; those in a slot do not own their memory
    std::size_t captured_ = 0;         // of them
    std::ptrdiff_t most_slots_ = DeviceCopier::kSlots;
    at::Tensor loss_;                    // float32 scalar that each graph writes
    std::vector<const void*> recorded_;  // addresses of state_ at the captures
    std::int64_t seen_ = 0;              // batches of this shape
};

}  // namespace stoker
