// Which device a run uses, and the way of a batch onto it. LibTorch's CUDA library is opened only
// where a device is asked for and a driver is there, so a CPU run never pays for it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <deque>
#include <memory>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// Opens LibTorch's CUDA library and registers its kernels; empty where that worked, else why not. LibTorch
// remembers whether it has CUDA from the first time anybody asks, so this must come before any such question.
std::string load_torch_cuda();

// "auto", "cpu", "cuda" or "cuda:N". "auto" is CUDA where it works, else the CPU. Throws
// Unsupported where CUDA is asked for by name and is not to be had, saying why.
at::Device pick_device(const std::string& name);

// Memory for batch slots that copies to `device` fastest: pinned for CUDA, where `pin_memory` allows it.
Allocator& slot_allocator(const at::Device& device, bool pin_memory);

struct DeviceBatch {
    at::Tensor image;  // (N, C, H, W) float32
    at::Tensor label;  // (N) int64
};

// Copies batches to a device without waiting, and keeps each batch until its copy has been made: a
// slot that went back early would be overwritten under the copy. On the CPU nothing is copied.
class DeviceCopier {
  public:
    explicit DeviceCopier(at::Device device) : device_(device) {}
    DeviceCopier(const DeviceCopier&) = delete;
    DeviceCopier& operator=(const DeviceCopier&) = delete;
    ~DeviceCopier();

    DeviceBatch copy(const std::shared_ptr<Batch>& batch);

  private:
    struct InFlight {
        std::shared_ptr<Batch> batch;
        c10::Event copied;
    };

    at::Device device_;
    std::deque<InFlight> in_flight_;
};

}  // namespace stoker
