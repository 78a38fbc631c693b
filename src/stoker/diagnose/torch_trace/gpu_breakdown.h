// The GPU's time as HTA 0.5 (HolisticTraceAnalysis) defines it: get_temporal_breakdown and get_idle_time_breakdown
// with their defaults, so that both programs give the same numbers.
#pragma once

#include <optional>

#include "stoker/diagnose/torch_trace/trace_events.h"
#include "stoker/records/records.h"

namespace stoker {

// Fills compute_us, non_compute_us, idle_us and idle. Empty if no work of a GPU is left. As in HTA:
// - the last ProfilerStep, and the kernels launched in it, do not count if there are several;
// - times of nanosecond resolution are rounded to whole microseconds, the start upwards and the end downwards;
// - a gap on a stream is a host wait if the next kernel was launched after the last had ended, a kernel wait if it is
//   shorter than 30 us (HTA's documentation says ns, but its times are in us), and "other" else.
std::optional<GpuEntry> gpu_breakdown(const TraceEvents& trace);

// A kernel of the accelerator's computing units: not a copy, not communication.
bool is_compute_kernel(std::string_view name);
bool is_communication_kernel(std::string_view name);  // of NCCL or RCCL

}  // namespace stoker
