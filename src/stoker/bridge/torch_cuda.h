// The interface to LibTorch's CUDA classes. Its implementation is a small library, opened together with
// libtorch_cuda.so at the first use, so that no program is linked against CUDA and no CPU run loads it.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "stoker/base/cuda_device.h"

namespace stoker {

// CUDA graphs: work captured once and replayed with one launch, on the same memory. Allocations within the graphs share
// one pool, so two graphs must not run at the same time.
class DeviceGraphs {
  public:
    virtual ~DeviceGraphs() = default;

    // Captures the kernels that `work` launches, without running them, as a further graph; the first one has number 0.
    // Throws what `work` throws, and for operations that cannot be captured, such as a synchronisation. Then there is
    // no further graph and the stream is as before.
    virtual void capture(const std::function<void()>& work) = 0;
    // Launches the work of this number on the current stream. Does not wait.
    virtual void replay(std::size_t number) = 0;
    // Frees all graphs.
    virtual void clear() = 0;
};

// Statistics of LibTorch's caching allocator.
struct DeviceMemory {
    std::int64_t allocated = 0;  // bytes in tensors
    std::int64_t reserved = 0;   // bytes reserved from the device
    std::int64_t peak_allocated = 0;
    std::int64_t peak_reserved = 0;
    std::int64_t retries = 0;  // allocations that succeeded only after cached memory was freed
};

class TorchCuda {
  public:
    virtual ~TorchCuda() = default;
    virtual std::unique_ptr<DeviceGraphs> make_graphs(const at::Device& device) = 0;
    virtual DeviceMemory memory(const at::Device& device) = 0;
    // Bytes that tensors may still take: free on the device, or kept by the allocator for later ones. Takes some
    // milliseconds.
    virtual std::int64_t free_bytes(const at::Device& device) = 0;
    // Empty if LibTorch does not know the device.
    virtual std::optional<CudaDevice> properties(const at::Device& device) = 0;
    // Page-locked host memory, allocated in the context of `device`. Throws what LibTorch throws.
    virtual std::byte* allocate_pinned(const at::Device& device, std::size_t bytes) = 0;
    virtual void free_pinned(std::byte* data) noexcept = 0;
    // As torch.cuda.set_sync_debug_mode: with `error`, LibTorch throws where it would wait for a device.
    virtual void set_sync_debug_mode(bool error) = 0;
};

// Throws Unsupported if LibTorch lacks CUDA or this build lacks the library.
TorchCuda& torch_cuda();
// The same, or null. Without a driver nothing is loaded.
TorchCuda* find_torch_cuda();

// For tests: during its lifetime both return `library`.
class ReplacedTorchCuda {
  public:
    explicit ReplacedTorchCuda(TorchCuda& library);
    ReplacedTorchCuda(const ReplacedTorchCuda&) = delete;
    ReplacedTorchCuda& operator=(const ReplacedTorchCuda&) = delete;
    ~ReplacedTorchCuda();
};

}  // namespace stoker
