// The functions and operators of a profile that took the most time themselves, for text and JSON.
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/trace/records.h"

namespace stoker {

// By self_us. Empty where Python's profiler did not run.
std::vector<FunctionEntry> costly_functions(const RankRecords& rank, std::size_t most);

// Summed by name, by self_us and device_us together. Empty where no profile was taken.
std::vector<OperatorEntry> costly_operators(const RankRecords& rank, std::size_t most);

}  // namespace stoker
