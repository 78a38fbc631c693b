// Reads lines of metrics.jsonl (docs/records.md). The order of keys is free, unknown keys are skipped, and values of a
// wrong type count as unknown.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

struct RecordLine {
    std::string type = {};     // "step"; empty if the line is not a record
    std::int64_t step = -1;    // the last step before the line; -1: it has none
    int rank = 0;              // that it is about
    bool profiled = false;     // a profiler slowed it down
    bool complete = true;      // false: a step or an epoch without a key that each has, or with a wrong value
    std::string problem = {};  // why the line cannot be used; empty for a good one
    // Empty for a type that was not asked for.
    std::variant<std::monostate, RunFacts, StepEntry, IntervalEntry, EvaluationEntry, EpochEntry, FunctionProfile>
        entry = {};
};

class RecordReader {
  public:
    // `types`: of lines of other types only type, step, rank and profiled are read.
    explicit RecordReader(std::initializer_list<std::string_view> types);
    ~RecordReader();

    RecordLine read(std::string_view line);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// True if the text of a line looks like a record of this type. A fraction of the time that reading it takes.
bool seems_of_type(std::string_view line, std::string_view type);

// Collects the records of a run by rank.
class RecordCollector {
  public:
    explicit RecordCollector(RunRecords& records) : records_(records) {}

    // Returns why the line cannot be used; empty for a good one, and for one of a type that no rule reads.
    std::string add(std::string_view line);

  private:
    RunRecords& records_;
    RecordReader reader_{"facts", "step", "interval", "evaluation", "functions"};
};

// Adds an entry to a list that ascends by `number`. A run that was killed and resumed may have written a step twice:
// the later line counts, and what came after it in the first place is dropped.
template <typename Entry>
void add_in_order(std::vector<Entry>& list, Entry entry, std::int64_t Entry::*number) {
    while (!list.empty() && list.back().*number >= entry.*number) {
        list.pop_back();
    }
    list.push_back(std::move(entry));
}

}  // namespace stoker
