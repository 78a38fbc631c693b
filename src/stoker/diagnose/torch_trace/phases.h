// The time of the training thread as phases that sum to the whole, from the ranges of a trace.
#pragma once

#include <vector>

#include "stoker/diagnose/torch_trace/host_walk.h"
#include "stoker/records/account.h"

namespace stoker {

struct PhaseRange {
    Phase phase = Phase::unmeasured;
    TimeRange time = {};
};

// The phases within `window`, in order of time and without gaps. If ranges overlap, the one that explains more wins:
// wait, sync, copy, optimizer, backward, forward, communication. Forward reaches from its first operator to the begin
// of the backward pass, backward from its first function to its last; communication counts where nothing else runs.
std::vector<PhaseRange> phase_ranges(const TraceEvents& trace, const HostWalk& host, const TimeRange& window);

// The times of `ranges` within `part`, by phase.
PhaseTimes phase_times(const std::vector<PhaseRange>& ranges, const TimeRange& part);

// Sorted and joined where they touch or overlap.
std::vector<TimeRange> joined(std::vector<TimeRange> ranges);

// How much of `time` the joined ranges cover, in ns.
std::int64_t covered_ns(const std::vector<TimeRange>& ranges, const TimeRange& time);

}  // namespace stoker
