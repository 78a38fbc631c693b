// A training step as a CUDA graph: captured once (bridge/torch_cuda.h) and replayed for each batch of the same shape,
// which saves the host the launches of some hundred operations. A graph reads its batch at fixed addresses, so each
// slot of a DeviceCopier gets one; a batch that lies elsewhere is copied into memory that a further graph reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/torch_cuda.h"
#include "stoker/train/step/eager_step.h"

namespace stoker {

// Eager are the first steps, in which libraries choose algorithms and allocate memory, those of batches of another
// shape than the largest, and all after a capture failed. A capture also fails if the step draws random numbers on the
// host, because every replay would repeat them.
class GraphStep final : public RetryingStep {
  public:
    GraphStep(RetryingStep&& eager, std::unique_ptr<DeviceGraphs> graphs);

    void accumulate_at_least(std::int64_t parts, std::int64_t samples) override;
    std::string compiled() const override;
    bool free_graph() override;

  private:
    void train(const DeviceBatch& batch, double lr, std::int64_t samples) override;
    bool replay(const DeviceBatch& batch);
    bool accepts(const DeviceBatch& batch);
    std::size_t input_for(const DeviceBatch& batch);
    bool capture();
    void invalidate();
    void disable(std::string reason);

    std::unique_ptr<DeviceGraphs> graphs_;  // null: disabled
    std::vector<at::Tensor> state_;         // all that a step reads or writes besides the batch
    bool fused_ = false;                    // the captured step is a fused one
    std::string reason_;                    // why nothing is captured, or not yet
    std::string why_one_;                   // why one graph serves all batches; empty where each slot may have one
    DeviceBatch shape_;                     // of the batches to capture, without memory
    std::vector<DeviceBatch> inputs_;       // the batch of each graph; those in a slot do not own their memory
    std::size_t captured_ = 0;              // of them
    std::ptrdiff_t most_slots_ = DeviceCopier::kSlots;
    at::Tensor loss_;                    // float32 scalar that each graph writes
    std::vector<const void*> recorded_;  // addresses of state_ at the captures
    std::int64_t seen_ = 0;              // batches of this shape
};

}  // namespace stoker
