// The steps that torch.profiler marks, and those of them that are judged.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

struct TraceStep {
    std::int64_t number = 0;  // N of ProfilerStep#N, in [0, 2^40]
    TimeRange time = {};
};

// In order of time.
std::vector<TraceStep> trace_steps(const TraceEvents& trace);

// The first tenth of the steps, and one at least where there are several: the loader starts there, collectives wait for
// the profilers of other ranks, and libraries choose algorithms.
std::size_t warm_up_steps(std::size_t steps);

// From the first of the steps to the end of the last; without steps, from the first event to the end of the last.
TimeRange window_of(const TraceEvents& trace, std::span<const TraceStep> steps);

}  // namespace stoker
