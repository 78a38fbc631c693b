// The readings of a run's GPU while it trains: the memory of tensors, its temperature and clocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "stoker/monitor/gpu_counters.h"
#include "stoker/monitor/nvml.h"

namespace stoker {

struct DeviceReading {
    std::optional<std::int64_t> peak_bytes = {};  // most that tensors have taken since the process began
    std::optional<GpuCounters> clocks = {};       // Nvml::read_clocks
};

class DeviceReader {
  public:
    // `nvml` is the library to open for a GPU.
    explicit DeviceReader(const at::Device& device, const std::string& nvml = "libnvidia-ml.so.1");

    // Does not wait for the device. Everything is empty for a CPU. The driver may take a millisecond for the clocks, so
    // they are read once a second at most.
    DeviceReading read();

  private:
    at::Device device_;
    std::string uuid_;
    std::optional<Nvml> nvml_;
    std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace stoker
