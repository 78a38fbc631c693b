// What forward passes change beside gradients: buffers, such as running statistics, and where random generators stand.
// It is kept and put back, so that a pass that failed, or was only tried, leaves nothing behind.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class ForwardState {
  public:
    // Of the device's generator and the host's.
    ForwardState(const Model& model, const at::Device& device);

    // The place that `restore` goes back to. Waits for no device.
    void keep();
    void restore();

  private:
    // Buffers of one type, which the foreach kernels copy at once.
    struct Buffers {
        std::vector<at::Tensor> own;
        std::vector<at::Tensor> kept;
    };
    struct Draws {
        at::Generator generator;
        at::Tensor state;
    };

    std::vector<Buffers> buffers_;
    std::vector<Draws> draws_;
};

// Where the generator stands, and back to there.
at::Tensor state_of(at::Generator generator);
void set_state(at::Generator generator, const at::Tensor& state);

}  // namespace stoker
