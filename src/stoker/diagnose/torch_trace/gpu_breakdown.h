// The GPU's time: compute, non-compute and idle; and the causes of the idle time on each stream.
#pragma once

#include <optional>

#include "stoker/diagnose/torch_trace/device_profile.h"
#include "stoker/diagnose/torch_trace/trace_events.h"
#include "stoker/records/records.h"

namespace stoker {

// As HTA 0.5 (HolisticTraceAnalysis) defines it, so that both programs give the same numbers: get_temporal_breakdown
// and get_idle_time_breakdown with their defaults. Empty if no work of a GPU is left. As in HTA:
// - the span reaches from the first kernel to the end of the last;
// - the last ProfilerStep, and the kernels launched in it, do not count if there are several;
// - times of nanosecond resolution are rounded to whole microseconds, the start upwards and the end downwards, so that
//   shorter kernels take no time;
// - a gap on a stream is a host wait if the next kernel was launched after the last had ended, a kernel wait if it is
//   shorter than 30 us (HTA's documentation says ns, but its times are in us), and "other" else.
std::optional<GpuTimes> hta_breakdown(const TraceEvents& trace);

// The same of the whole window, exactly.
GpuTimes gpu_breakdown(const TraceEvents& trace, const HostWalk& host, const DeviceProfile& device,
                       const TimeRange& window);

// A kernel of the accelerator's computing units: not a copy, not communication.
bool is_compute_kernel(std::string_view name);
bool is_communication_kernel(std::string_view name);  // of NCCL or RCCL

}  // namespace stoker
