#include "stoker/bridge/device_memory.h"

#include "stoker/base/error.h"

namespace stoker {

std::optional<DeviceMemory> device_memory(const at::Device& device) {
    try {
        return device.is_cuda() ? std::optional(torch_cuda().memory(device)) : std::nullopt;
    } catch (const Unsupported&) {
        return std::nullopt;
    }
}

}  // namespace stoker
