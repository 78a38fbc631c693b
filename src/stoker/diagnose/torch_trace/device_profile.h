// The work of the GPU: kernels, copies, collectives, and when it was idle.
#pragma once

#include <vector>

#include "stoker/diagnose/torch_trace/host_walk.h"

namespace stoker {

// Counts are of work that begins in the window, and times are those within it.
struct DeviceProfile {
    std::vector<CopyEntry> copies = {};
    std::vector<CollectiveEntry> collectives = {};
    std::int64_t kernels = 0;  // computing and communication
    std::int64_t graph_kernels = 0;
    double kernel_us = 0;
    double tensor_core_us = 0;
    std::optional<double> launch_delay_us = {};
    int devices = 0;
    // Joined times of all work and of the computing kernels, also outside of the window.
    std::vector<TimeRange> busy = {};
    std::vector<TimeRange> compute = {};
};

DeviceProfile profile_device(const TraceEvents& trace, const HostWalk& host, const TimeRange& window);

// The parts of the window outside of all `busy` ranges. Empty without any range: a GPU was not recorded.
std::vector<TimeRange> idle_gaps(const std::vector<TimeRange>& busy, const TimeRange& window);

// Those of the gaps after which comes work that the host had launched before them: the device itself took its time.
std::vector<TimeRange> queued_gaps(const TraceEvents& trace, const HostWalk& host, std::vector<TimeRange> gaps);

// By the kernel's name: it computes on tensor cores.
bool uses_tensor_cores(std::string_view kernel);

}  // namespace stoker
