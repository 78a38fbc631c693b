// Records as lines of metrics.jsonl (docs/records.md): one JSON object a line, with "type", "schema" and "step". Keys
// that were not measured are left out; unknown keys are skipped, and values of a wrong type count as unknown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

inline constexpr std::string_view kStepLine = R"({"type":"step",)";  // a step's line begins so, and ends with "}}"

// `step` is the last step before the line: a resumed run truncates metrics.jsonl after it.
std::string to_json_line(const RunFacts& facts, std::int64_t step);
// Its times are whole microseconds: there is a line for every step.
std::string to_json_line(const StepEntry& step, std::uint64_t batch_hash);
std::string to_json_line(const IntervalEntry& interval, int rank);
std::string to_json_line(const EvaluationEntry& evaluation, int rank);
std::string to_json_line(const EpochResult& epoch);
// The line of a step or an evaluation with "profiled": true. A profiler slowed it down, and no rule reads it.
std::string marked_as_profiled(std::string line);

// The keys of an epoch's line from "epoch" on; a checkpoint and a run's document have them too.
nlohmann::ordered_json json_of(const EpochResult& epoch);
// False if a key is missing or has a value of a wrong type.
bool read_epoch(const nlohmann::ordered_json& json, EpochResult& epoch);

struct RecordLine {
    std::string problem = {};  // why the line cannot be used; empty for a good one
    std::string type = {};     // "step"
    std::int64_t step = -1;    // the last step before the line; -1: it has none
    int rank = 0;              // that it is about
    bool profiled = false;
    bool complete = true;  // false: a step or an epoch that lacks a key, or any record with a value of a wrong type
    std::variant<std::monostate, RunFacts, StepEntry, IntervalEntry, EvaluationEntry, EpochResult, FunctionProfile>
        entry = {};
};

// The entry is read if the type is among `types`.
RecordLine read_record(std::string_view line, std::initializer_list<std::string_view> types);

// Adds one line to the rank that it is about, which is made if it is missing. Types that no rule reads are skipped.
// Returns why the line cannot be used; empty for a good one.
std::string add_record(std::string_view line, RunRecords& records);

// Adds an entry to a list that ascends by `number`. A run that was killed and resumed may have written a step twice:
// the later line counts.
template <typename Entry>
void add_in_order(std::vector<Entry>& list, Entry entry, std::int64_t Entry::*number) {
    while (!list.empty() && list.back().*number >= entry.*number) {
        list.pop_back();
    }
    list.push_back(std::move(entry));
}

}  // namespace stoker
