// A whole training step as one launch: its work is recorded once on the device (bridge/torch_cuda.h) and then done
// again for each batch of the same shape, so that the host's time for some hundred operations falls away.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_cuda.h"

namespace stoker {

class StepGraph {
  public:
    // A step from a batch to updated weights, which writes the batch's mean loss. All that it is given anew each time
    // is the batch: learning rates and the like have to lie in tensors.
    using WholeStep = std::function<void(const DeviceBatch& batch, const at::Tensor& loss)>;

    // `state`: all tensors beside the batch that a step works on.
    StepGraph(std::unique_ptr<DeviceGraph> graph, std::vector<at::Tensor> state);

    // Does `step` on the batch and writes its loss into `loss`; or false, and nothing is done: the caller's turn. That
    // is so in the first steps, in which libraries choose their algorithms and take their memory, for batches of
    // another shape than the largest, and once a capture has failed. A capture fails, too, where the step draws on the
    // host, since the graph would have that one draw for ever.
    bool run(const DeviceBatch& batch, const at::Tensor& loss, const WholeStep& step);

    // The next step records anew.
    void forget() { captured_ = false; }
    // Forgets the graph and makes none any more.
    void give_up(std::string why);

    bool captured() const { return captured_; }
    // Of a graph that is not, or not yet.
    const std::string& why_not() const { return why_not_; }

  private:
    bool suits(const DeviceBatch& batch);
    bool capture(const WholeStep& step);
    std::vector<const void*> memory() const;

    std::unique_ptr<DeviceGraph> graph_;  // null: given up
    std::vector<at::Tensor> state_;
    std::string why_not_;
    DeviceBatch batch_;                  // the recorded step's own
    at::Tensor loss_;                    // scalar float32, likewise
    std::vector<const void*> recorded_;  // of state_
    std::int64_t seen_ = 0;              // batches of batch_'s shape
    bool captured_ = false;
};

}  // namespace stoker
