// A copy of everything that forward passes change besides gradients: buffers, such as running statistics, and the
// states of the random generators. It undoes a pass that failed or was only tried.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/model.h"

namespace stoker {

class ForwardSnapshot {
  public:
    // Covers the device's generator and the host's.
    ForwardSnapshot(const Model& model, const at::Device& device);

    // Neither waits for the device.
    void save();
    void restore();  // to the last `save`

  private:
    // Buffers of one type, which the foreach kernels copy in one call.
    struct Buffers {
        std::vector<at::Tensor> live;
        std::vector<at::Tensor> saved;
    };
    struct SavedGenerator {
        at::Generator generator;
        at::Tensor state;
    };

    std::vector<Buffers> buffers_;
    std::vector<SavedGenerator> generators_;
};

// The generator's state, read and written under its mutex.
at::Tensor generator_state(at::Generator generator);
void set_generator_state(at::Generator generator, const at::Tensor& state);

}  // namespace stoker
