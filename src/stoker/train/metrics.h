// The lines of metrics.jsonl and the document of a finished run. Keys are stable; more may be added.
#pragma once

#include <string>

#include "stoker/train/trainer.h"

namespace stoker {

// {"type": "step", "schema": 1, "step", "epoch", "samples", "loss", "lr", "batch_hash", "us": {phase: N}}; a loss that
// is not finite is null.
std::string step_metric(const StepMetric& metric, double loss);

// {"type": "epoch", "schema": 1, "step", ...the epoch's figures}
std::string epoch_metric(const EpochResult& result, std::int64_t step);

// The document `before` with the "resumed_from_step" of `now`; empty where it does not tell of the same finished
// run: of a stop on the way, of fewer epochs, or nothing that can be read.
std::string told_again(const std::string& before, const std::string& now);

}  // namespace stoker
