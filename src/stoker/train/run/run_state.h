// state.json of a checkpoint: everything a run resumes from besides tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/pipeline/loader_state.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

// The running sums of the epoch in progress.
struct EpochSums {
    double loss = 0;  // over samples
    double seconds = 0;
    std::int64_t samples = 0;
    std::int64_t bad_samples = 0;
};

// The known facts of a data set's stored bytes, without reading them.
struct DataSummary {
    std::string format = {};
    std::int64_t bytes = 0;  // of all files; 0: not known

    bool operator==(const DataSummary&) const = default;
};

// The bytes of image files are not known: each would cost a system call.
DataSummary summary_of(const Dataset& dataset);

struct RunState {
    LoaderState loader;
    std::vector<std::string> classes;  // of the training data
    std::int64_t step = 0;
    std::vector<EpochResult> epochs;  // finished ones
    EpochSums sums;
    StepRecord account;
    std::int64_t accumulate = 1;     // micro-batches, if memory forced more than the recipe says; else 1
    std::int64_t metrics_bytes = 0;  // length of metrics.jsonl
    std::string recipe = {};         // TOML; written, and read by read_trained_recipe (checkpoint.h)
    std::string model_hash = {};     // of the model's file; written, and read by read_model_hash
    DataSummary data = {};           // of the training data
};

std::string to_json(const RunState& state);

// Throws InvalidArgument for text that is not a state.json, or one of another version.
RunState run_state_from_json(const std::string& text);

// Throws InvalidArgument where step, finished epochs and loader contradict each other.
void require_consistent(const RunState& state, std::int64_t batches_per_epoch);

}  // namespace stoker
