// All counters of the host at once, and their rates since the reading before: what `stoker top` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stoker/monitor/cpu_counters.h"
#include "stoker/monitor/disk_counters.h"
#include "stoker/monitor/gpu_counters.h"
#include "stoker/monitor/memory_counters.h"
#include "stoker/monitor/network_counters.h"
#include "stoker/monitor/nvml.h"
#include "stoker/monitor/process_counters.h"

namespace stoker {

// One reading, as the kernel counts.
struct HostReading {
    std::int64_t time_ns = 0;  // of a steady clock
    std::vector<CoreTimes> cores;
    std::optional<LoadAverage> load;
    std::optional<Pressure> cpu_pressure;
    std::optional<Pressure> io_pressure;
    std::vector<GroupThrottling> throttling;
    MemoryCounters memory;
    std::vector<DiskCounters> disks;
    std::vector<NetworkCounters> network;
    std::vector<ProcessCounters> processes;
};

HostReading read_host(const std::string& root = "");

struct CoreView {
    int core = 0;
    CpuShares shares = {};
};

// Rates over the time between two readings; everything else at its end.
struct HostView {
    double seconds = 0;
    std::vector<CoreView> cores;
    std::optional<CpuShares> all_cores;
    std::optional<LoadAverage> load;
    std::optional<Pressure> cpu_pressure;
    std::optional<Pressure> io_pressure;
    std::optional<double> throttled;  // share of the quota's periods in which it was used up
    MemoryCounters memory;
    std::optional<double> swap_in_bytes;  // a second
    std::optional<double> swap_out_bytes;
    std::vector<DiskRates> disks;
    std::vector<NetworkRates> network;
    std::vector<ProcessRates> processes;
    std::vector<GpuCounters> gpus;
};

// `after` must be the later reading. Throws InvalidArgument if no time passed in between.
HostView compare(const HostReading& before, const HostReading& after);

class HostMonitor {
  public:
    // Takes the first reading. `root` replaces "/" in tests, `nvml` the driver's library.
    explicit HostMonitor(const std::string& root = "", const std::string& nvml = "libnvidia-ml.so.1");

    // The host since the reading before.
    HostView next();

    const Nvml& nvml() const { return nvml_; }

  private:
    std::string root_;
    Nvml nvml_;
    HostReading before_;
};

}  // namespace stoker
