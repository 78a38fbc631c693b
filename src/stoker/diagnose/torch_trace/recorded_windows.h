// A profiler that records, rests and records again (its `repeat`) may write one trace with holes. Time that was not
// recorded is neither work nor idleness, so each stretch of steps is judged as a separate trace.
#pragma once

#include <vector>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

// The trace, cut where the numbers of its steps (ProfilerStep#N) leave some out; in order of time. Without such a hole
// it is not changed.
std::vector<TraceEvents> recorded_windows(TraceEvents trace);

}  // namespace stoker
