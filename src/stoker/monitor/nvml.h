// NVML, the management library of NVIDIA's driver, opened at run time: a machine without a driver shows no GPUs, and
// nothing is linked.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/monitor/gpu_counters.h"

namespace stoker {

struct NvmlFunctions;

class Nvml {
  public:
    // Opens `library`. Does not throw: see problem(). `root` replaces "/" in tests.
    explicit Nvml(const std::string& library = "libnvidia-ml.so.1", const std::string& root = "");
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml();

    // Why no GPU can be read, in one line; empty if they can, even if there are none.
    const std::string& problem() const { return problem_; }

    // False without the library: this machine, or this container, lacks a driver.
    bool installed() const { return installed_; }

    // The driver's version: "570.86.15"; empty if unknown. Taken from the library's file name if NVML does not start.
    std::string driver_version() const;

    // All GPUs that this process may see; one that does not answer has a `problem`. The throughput of PCIe costs 40 ms
    // a GPU, so it is read on request.
    std::vector<GpuCounters> read(bool pcie_throughput) const;

    // Temperature and clocks alone of the GPU with this UUID, 16 bytes as CUDA gives them. Empty if NVML does not know
    // it: a MIG partition has its own UUID.
    std::optional<GpuCounters> read_clocks(std::string_view uuid) const;

  private:
    std::unique_ptr<NvmlFunctions> functions_;  // none if there is a problem
    std::string root_;
    std::string file_version_;
    std::string problem_;
    bool installed_ = false;
};

}  // namespace stoker
