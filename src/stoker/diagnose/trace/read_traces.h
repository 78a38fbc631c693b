// Traces of torch.profiler -> the records that the rules read.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "stoker/diagnose/trace/trace_events.h"
#include "stoker/trace/records.h"

namespace stoker {

// One file for each rank. A rank that a file does not name, or names a second time, gets the next free number. Throws
// DataError for a file that is no trace, IoError for one that cannot be read, InvalidArgument for no files.
RunRecords read_traces(std::span<const std::filesystem::path> paths);

// One trace. Its steps are ProfilerStep#N, numbered as there; without them the whole trace is one step.
RankRecords rank_records(const TraceEvents& trace);

}  // namespace stoker
