// Records as lines of JSON (docs/records.md): one object a line, with "type" and "schema". Keys that were not measured
// are left out. Step lines are written by train/run/run_recorder, because they carry the loss, too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "stoker/records/records.h"

namespace stoker {

// Every line has a "step": the last step before it. A resumed run cuts metrics.jsonl by it.
// {"type": "facts", "schema": 1, "step", "writer", "rank", "world_size", "host": {...}, "device", "data", "train"}
std::string to_json_line(const RunFacts& facts, std::int64_t step);
// {"type": "interval", "schema": 1, "step", "rank", "first_step", "last_step", "seconds", "us", "workers_us", ...}
std::string to_json_line(const IntervalEntry& interval, int rank);
// {"type": "evaluation", "schema": 1, "rank", "step", "samples", "us", "workers_us"}
std::string to_json_line(const EvaluationEntry& evaluation, int rank);

// The line with "profiled": true if `profiled(type, step)` says so of it: steps and evaluations that a profiler slowed
// down are in the file, and no rule reads them.
std::string marked_as_profiled(std::string line, const std::function<bool(std::string_view, std::int64_t)>& profiled);

// Adds one line of a metrics.jsonl to the rank that it is about, which is made if it is missing. Unknown types and keys
// are skipped. Returns why the line cannot be used; empty for a good one.
std::string add_record(std::string_view line, RunRecords& records);

}  // namespace stoker
