// The lines of metrics.jsonl and the document of a finished run. Keys are stable; more may be added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/trace/account.h"

namespace stoker {

struct EpochResult {
    std::int64_t epoch = 0;  // from 1
    double seconds = 0;      // first wait to the end of the last optimiser step; no evaluation, no checkpoints
    double images_per_second = 0;
    double train_loss = 0;  // mean over the epoch's samples
    std::optional<double> val_loss = std::nullopt;
    std::optional<double> val_accuracy = std::nullopt;       // share in [0, 1]
    std::optional<double> val_top5_accuracy = std::nullopt;  // of more than five classes
    std::int64_t bad_samples = 0;                            // of the training data, which others stood in for
    std::int64_t val_bad_samples = 0;                        // of the validation data
};

// What metrics.jsonl says of a step, but for its loss.
struct StepMetric {
    std::int64_t step = 0;
    std::int64_t epoch = 0;  // from 1
    std::int64_t samples = 0;
    double lr = 0;
    std::uint64_t batch_hash = 0;
    StepRecord record;
};

// {"type": "step", "schema": 1, "step", "epoch", "samples", "loss", "lr", "batch_hash", "us": {phase: N}}; a loss that
// is not finite is null.
std::string step_metric(const StepMetric& metric, double loss);

// {"type": "epoch", "schema": 1, "step", ...the epoch's figures}
std::string epoch_metric(const EpochResult& result, std::int64_t step);

// The document `before` with the "resumed_from_step" of `now`; empty where it does not tell of the same finished
// run: of a stop on the way, of fewer epochs, or nothing that can be read.
std::string told_again(const std::string& before, const std::string& now);

}  // namespace stoker
