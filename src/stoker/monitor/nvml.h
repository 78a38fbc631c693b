// NVML, the management library of NVIDIA's driver, opened at run time: a machine without a driver has no GPUs to show,
// and nothing is linked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stoker/monitor/gpu_counters.h"

namespace stoker {

struct NvmlFunctions;

class Nvml {
  public:
    // Opens `library`. Does not throw: see problem().
    explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml();

    // Why no GPU can be read, in one line; empty if they can, even if there are none.
    const std::string& problem() const { return problem_; }

    // False without the library: this machine, or this container, has no driver.
    bool installed() const { return installed_; }

    // "570.86.15"; empty if it is not known.
    std::string driver_version() const;

    // The CUDA version of the driver: 1000 * major + 10 * minor; 0 if it is not known.
    int cuda_version() const;

    // All GPUs that this process may see. The throughput of PCIe costs 40 ms a GPU, so it is read on request.
    std::vector<GpuCounters> read(bool pcie_throughput) const;

  private:
    std::unique_ptr<NvmlFunctions> functions_;  // none if there is a problem
    std::string problem_;
    bool installed_ = false;
};

}  // namespace stoker
