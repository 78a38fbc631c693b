// The lines of metrics.jsonl and the document of a finished run. Keys are stable; more may be added.
#pragma once

#include <string>

#include "stoker/pipeline/batch.h"
#include "stoker/trace/account.h"
#include "stoker/train/trainer.h"

namespace stoker {

// {"type": "step", "schema": 1, "step", "epoch", "samples", "lr", "batch_hash", "us": {phase: N}}
std::string step_metric(std::int64_t step, const Batch& batch, double lr, const StepRecord& record);

// {"type": "epoch", "schema": 1, "step", ...the epoch's figures}
std::string epoch_metric(const EpochResult& result, std::int64_t step);

// The document `before` with the "resumed_from_step" of `now`; empty where it does not tell of the same finished
// run: of a stop on the way, of fewer epochs, or nothing that can be read.
std::string told_again(const std::string& before, const std::string& now);

}  // namespace stoker
