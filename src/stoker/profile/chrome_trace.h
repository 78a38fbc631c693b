// A profile as Chrome JSON with the conventions of torch.profiler, which Perfetto, HolisticTraceAnalysis and
// torch-tb-profiler read.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/profile/profile.h"
#include "stoker/records/records.h"

namespace stoker {

// Times are microseconds from `baseTimeNanoseconds`, the start of the first window. Besides torch.profiler's events:
// the work of each loader thread (category "loader"), and the finished batches in its ring as a counter.
//
// Perfetto drops a slice that overlaps another of its thread without lying within it, so ranges, the loader's threads
// and the ranges of a GPU have their own thread numbers, and a slice that still overlaps gets another number.
std::string chrome_trace(const Profile& profile, const DeviceFacts& device = {});

// "<host>_<process>.<nanoseconds since 1970>.pt.trace.json.gz", the name that torch-tb-profiler looks for.
std::string trace_file_name(const Profile& profile);

}  // namespace stoker
