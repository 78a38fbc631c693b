// What Stoker asks of LibTorch's CUDA side in its own types. It lives in a small library that is opened the first time
// somebody asks, beside libtorch_cuda.so, so that no program is linked against CUDA and no CPU run reads it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace stoker {

// A device's work, recorded once and then done as often as wanted, as one launch and on the same memory.
class DeviceGraph {
  public:
    virtual ~DeviceGraph() = default;

    // Records what `work` asks of the device, which does not do it yet; a graph recorded before is forgotten. Throws
    // what `work` throws, and for what cannot be recorded, such as a read on the host; then there is no graph, and the
    // device goes on as if nothing had been asked.
    virtual void capture(const std::function<void()>& work) = 0;
    // Does the recorded work, behind what was asked of the device before. Does not wait.
    virtual void replay() = 0;
};

// Of LibTorch's allocator.
struct DeviceMemory {
    std::int64_t allocated = 0;  // bytes in tensors
    std::int64_t reserved = 0;   // bytes taken from the device
    std::int64_t peak_allocated = 0;
    std::int64_t peak_reserved = 0;
    std::int64_t retries = 0;  // times that memory was given back and asked for anew
};

class TorchCuda {
  public:
    virtual ~TorchCuda() = default;
    virtual std::unique_ptr<DeviceGraph> make_graph(const at::Device& device) = 0;
    virtual DeviceMemory memory(const at::Device& device) = 0;
};

// Throws Unsupported where LibTorch has no CUDA, or this build has no such library.
TorchCuda& torch_cuda();

}  // namespace stoker
