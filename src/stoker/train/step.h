// One optimiser step: forward, cross entropy, backward, update. The loss is summed on the device, so
// that nothing in the step waits for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "stoker/bridge/device.h"
#include "stoker/models/model.h"
#include "stoker/trace/account.h"
#include "stoker/train/optimizer.h"

namespace stoker {

class Step {
  public:
    Step(Model& model, Optimizer& optimizer, Account& account, const at::Device& device);

    // Trains on one batch with learning rate `lr`.
    void run(const DeviceBatch& batch, double lr);

    // Sum over samples of the loss since the last `restore`; waits for the device.
    double loss_sum() const;
    void restore(double loss_sum);

  private:
    Model& model_;
    Optimizer& optimizer_;
    Account& account_;
    at::Tensor loss_sum_;  // float64 scalar on the device
};

}  // namespace stoker
