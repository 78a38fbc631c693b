#include "stoker/train/run/device_reader.h"

#include "stoker/bridge/device_memory.h"

namespace stoker {

DeviceReader::DeviceReader(const at::Device& device, const std::string& nvml) : device_(device) {
    if (const std::optional<CudaDevice> found = device_properties(device)) {
        uuid_ = found->uuid;
        nvml_.emplace(nvml);
    }
}

DeviceReading DeviceReader::read() {
    constexpr std::chrono::seconds kEvery{1};
    DeviceReading reading;
    if (const std::optional<DeviceMemory> memory = device_memory(device_)) {
        reading.peak_bytes = memory->peak_allocated;
    }
    const auto now = std::chrono::steady_clock::now();
    if (nvml_ && (!last_ || now - *last_ >= kEvery)) {
        reading.clocks = nvml_->read_clocks(uuid_);
        last_ = now;
    }
    return reading;
}

}  // namespace stoker
