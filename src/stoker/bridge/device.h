// Selects the device of a run and copies batches to it. LibTorch's CUDA library is opened only if a device is wanted
// and a driver is present, so a CPU run does not load it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <deque>
#include <memory>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// Opens LibTorch's CUDA library and registers its kernels. Returns "" on success, else the reason. LibTorch decides
// once whether it has CUDA, at the first query, so call this before any such query.
std::string load_torch_cuda();

// `name` is "auto", "cpu", "cuda" or "cuda:N". "auto" is CUDA if it works, else the CPU. Throws Unsupported, with the
// reason, if CUDA is named and does not work.
at::Device pick_device(const std::string& name);

// The allocator for batch slots: pinned memory for CUDA if `pin_memory`, else host memory.
Allocator& slot_allocator(const at::Device& device, bool pin_memory);

struct DeviceBatch {
    at::Tensor image;  // (N, C, H, W) float32
    at::Tensor label;  // (N) int64
};

// Copies batches to a device asynchronously and holds each batch until its copy is complete: the loader would otherwise
// overwrite the slot during the copy. On the CPU nothing is copied.
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
