// Options and callbacks of Trainer::fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

// The position of training after a step.
struct Progress {
    std::int64_t epoch = 0;  // from 1
    std::int64_t epochs = 0;
    std::int64_t batch = 0;  // batches done in this epoch
    std::int64_t batches = 0;
    double images_per_second = 0;  // of this epoch so far
    // The loss of the newest step that the host knows without waiting for the device; empty before the first.
    std::optional<double> loss = std::nullopt;
    // The batch of this step, valid during the call: as loaded, with all fields, and on the device, on which images may
    // be bytes (normalize_pixels).
    const Batch* samples = nullptr;
    const DeviceBatch* on_device = nullptr;
    // Its mean loss, a float32 scalar on the device, of this rank's samples; 0 on stages before the last. item() waits.
    at::Tensor step_loss = {};
};

// The checkpoint that a run resumes from.
struct Resumed {
    std::string checkpoint;  // its folder
    std::int64_t step = 0;
    std::int64_t epochs = 0;  // finished ones
    bool finished = false;    // no epoch is left to train
    // Keys whose values differ between the checkpoint's recipe and the given one; model.weights is left out, since it
    // is not read again. Empty for a finished run.
    std::vector<DifferingKey> differing = {};
};

// A run that failed after at least one step.
struct FailedRun {
    std::int64_t step = 0;           // whole steps that were done
    std::string no_checkpoint = {};  // why that step was not saved; empty: it was
};

struct FitOptions {
    std::filesystem::path out = {};  // the run folder; empty: nothing is written
    std::string resume = {};         // "": a new run; "auto": the newest checkpoint in `out`, if any; or the path of a
                                     // checkpoint or run folder
    std::function<void(const std::string&)> on_warning = nullptr;  // one line, without a line break
    std::function<void(const Resumed&)> on_resume = nullptr;     // called once, before the first step of a resumed run
    std::function<void(const Progress&)> on_step = nullptr;      // called after each step, on the training thread
    OnEvaluation on_evaluation = nullptr;                        // called after each batch of an epoch's evaluation
    std::function<void(const EpochResult&)> on_epoch = nullptr;  // called after an epoch's evaluation and checkpoint
    std::function<void(std::int64_t)> on_save = nullptr;  // called with the step of a checkpoint that `save` asked for
    // Called with every line of metrics.jsonl (records/records_json.h), also where `out` is empty. A line may hold
    // several records. With several ranks: on all of them or on none.
    std::function<void(const std::string&)> on_record = nullptr;
    // Called before `fit` throws, where `out` is set; not where the device is lost, whose error names the newest
    // checkpoint.
    std::function<void(const FailedRun&)> on_failure = nullptr;
    const std::atomic<int>* interrupt = nullptr;  // a value other than 0: write a checkpoint and return
    const std::atomic<int>* save = nullptr;       // each other value than before: write a checkpoint and go on
};

}  // namespace stoker
