// One process may write a trace for each cycle of its profiler's schedule: the parts as one rank.
#pragma once

#include <string>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

// "host_4242.1700000000000.pt.trace.json.gz" -> "host_4242", as torch.profiler names its files; empty for other names.
std::string worker_of(std::string file);

// At least one part. Steps are in the order of their numbers, and numbered on where the parts' numbers overlap; what
// the profiles counted is summed.
RankRecords merged_parts(std::vector<RankRecords> parts);

}  // namespace stoker
