// What LibTorch's allocator says of a device, where it can be asked.
#pragma once

#include <optional>

#include "stoker/bridge/torch_cuda.h"

namespace stoker {

// Empty for other devices than GPUs, and for a build without the library for CUDA.
std::optional<DeviceMemory> device_memory(const at::Device& device);

}  // namespace stoker
