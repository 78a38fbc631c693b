// Traces of torch.profiler -> the records that the rules read.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "stoker/diagnose/torch_trace/trace_events.h"
#include "stoker/records/records.h"

namespace stoker {

// Files with the same rank are parts of one, as are files of the same worker `<host>_<pid>.<time>.pt.trace.json`
// without a rank: torch.profiler.schedule(repeat=2) writes two. A rank that no file names gets the next free number.
// The last `listed` files were found in folders: those that are not traces are left out, with a line in `problems`.
// Throws DataError for another file that is not a trace, or without any trace; IoError for one that cannot be read;
// InvalidArgument for no files.
RunRecords read_traces(std::span<const std::filesystem::path> paths, std::size_t listed = 0);

// Adds the profile of each trace to the rank of `records` that it names. Throws as read_traces.
void add_traces(RunRecords& records, std::span<const std::filesystem::path> paths, std::size_t listed = 0);

// One trace. Its steps are ProfilerStep#N, numbered as there; without them the whole trace is one step. The profile is
// of the steps that are judged: all but those of the warm-up.
RankRecords rank_records(TraceEvents trace);

}  // namespace stoker
