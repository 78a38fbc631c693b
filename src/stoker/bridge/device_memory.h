// LibTorch's figures of a GPU and its memory, if it can be asked.
#pragma once

#include <optional>

#include "stoker/base/buffer.h"
#include "stoker/bridge/torch_cuda.h"

namespace stoker {

// All are empty for other devices than GPUs, and for a build without the library for CUDA.
std::optional<CudaDevice> device_properties(const at::Device& device);
std::optional<DeviceMemory> device_memory(const at::Device& device);
// TorchCuda::free_bytes.
std::optional<std::int64_t> free_device_bytes(const at::Device& device);

// The allocator of page-locked host memory for copies to this GPU; null where there is none. It keeps freed blocks for
// later requests of the same size. Its allocate() throws CudaError if the driver refuses.
Allocator* pinned_memory(const at::Device& device);

}  // namespace stoker
