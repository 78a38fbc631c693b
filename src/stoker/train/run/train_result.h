// The results of a step, an epoch and a run. Keys of their JSON are stable; more may be added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/torch_cuda.h"
#include "stoker/records/records.h"

namespace stoker {

// A step without its loss, which is read from the device later.
struct StepResult {
    std::int64_t step = 0;   // from 1
    std::int64_t epoch = 0;  // from 1
    std::int64_t samples = 0;
    double lr = 0;
    std::uint64_t batch_hash = 0;
    StepRecord record;
    std::optional<std::int64_t> ready = std::nullopt;       // finished batches when the step asked for its own
    std::optional<std::int64_t> copy_bytes = std::nullopt;  // copied to the device
    std::vector<std::int64_t> indices = {};                 // of the samples
};

struct TrainResult {
    std::filesystem::path run;  // the run folder; empty: nothing was written
    std::optional<std::int64_t> resumed_from_step;
    std::int64_t steps = 0;                             // optimiser steps of the whole run
    std::vector<EpochResult> epochs;                    // of the whole run, those before a resume included
    StepRecord account;                                 // the training thread's time by phase
    StageTimes workers;                                 // of this process
    double peak_rss_mb = 0;                             // the most memory that this process had
    std::string device;                                 // "cpu", "cuda:0"
    std::optional<DeviceMemory> memory = std::nullopt;  // of a GPU
    std::string compiled = {};                          // Step::compiled at the end
    int workers_used = 0;
    int threads = 0;
    int ranks = 1;
    std::int64_t bad_samples = 0;  // different samples that the run could not read; 0 without a run folder
    std::optional<std::int64_t> best_epoch = std::nullopt;  // of the checkpoint RUN/best (train.keep_best)
    bool stopped_early = false;                             // by train.early_stop
    bool interrupted = false;                               // by FitOptions::interrupt, before the last epoch was done
    int signal = 0;             // the value of FitOptions::interrupt that stopped the run, on this rank or another
    std::string document = {};  // this result as JSON; for a run that had finished before, the document stored then
};

// {"run", "resumed_from_step", "epochs", "account", "workers", "peak_rss_mb", "device", "memory", "compiled", ...}
std::string to_json(const TrainResult& result);

// The document `stored` with the "resumed_from_step" of `current`. Empty where `stored` does not describe the same
// finished run: it is not JSON, or is from an interrupted run or one of fewer epochs.
std::string reuse_document(const std::string& stored, const std::string& current);

}  // namespace stoker
