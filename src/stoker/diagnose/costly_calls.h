// The calls that took the most time, for text and JSON: functions and operators of a profile, and waits for the device.
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

// By self_us. Empty where Python's profiler did not run.
std::vector<FunctionEntry> costly_functions(const RankRecords& rank, std::size_t most);

// Summed by name, by self_us and device_us together. Empty where no profile was taken.
std::vector<OperatorEntry> costly_operators(const RankRecords& rank, std::size_t most);

// By place, the longest first: of the profile, or summed over the intervals.
std::vector<SyncEntry> costly_syncs(const RankRecords& rank, std::size_t most);

// In which those were counted; at least 1.
double steps_of_syncs(const RankRecords& rank);

}  // namespace stoker
