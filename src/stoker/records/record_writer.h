// Records as lines of metrics.jsonl (docs/records.md): one JSON object a line, with "type", "schema" and "step". Keys
// that were not measured are left out.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/records/records.h"

namespace stoker {

// `step` is the last step before the line: a resumed run cuts metrics.jsonl by it.
std::string to_json_line(const RunFacts& facts, std::int64_t step);
// Numbers of a step are short: whole microseconds. It is written for every step.
std::string to_json_line(const StepEntry& step);
std::string to_json_line(const IntervalEntry& interval, int rank);
std::string to_json_line(const EvaluationEntry& evaluation, int rank);
std::string to_json_line(const EpochEntry& epoch);
// The line's keys from "epoch" on, as an object.
std::string to_json(const EpochEntry& epoch);

// The line of a step or an evaluation with "profiled": true. A profiler slowed it down, and no rule reads it.
std::string marked_as_profiled(std::string line);

}  // namespace stoker
