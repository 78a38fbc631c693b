// Times of an accelerator's work that its driver reported wrongly.
#pragma once

#include <cstdint>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

// Leaves out work that begins at 0 where the host's events begin later: the driver gave it no time. Returns how much.
std::int64_t drop_work_without_time(TraceEvents& trace);

// Ends each piece of work where the next one of its stream begins, since a stream works on one after the other. The
// branches of one CUDA graph, which have one correlation, may overlap.
void end_work_at_the_next(TraceEvents& trace);

}  // namespace stoker
