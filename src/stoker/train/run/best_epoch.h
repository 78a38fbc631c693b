// The best epoch of a run, for train.keep_best and train.early_stop: a function of the finished epochs, so a resumed
// run finds the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stoker/train/run/train_result.h"
#include "stoker/train/task/task.h"

namespace stoker {

// What makes an epoch the best one.
struct BestBy {
    std::string metric = {};  // a name in EpochResult::val_metrics; empty: val_loss
    bool higher_is_better = false;
};

// `name` is train.keep_best: "val_loss", or a metric of the task such as "val_accuracy"; empty: val_loss. Empty for a
// metric that the task does not have.
std::optional<BestBy> best_by(const Task& task, const std::string& name);

// The metric of an epoch; empty where it was not evaluated, or is not finite (a checkpoint has null for it).
std::optional<double> best_value(const EpochResult& epoch, const BestBy& by);

// The first of the best epochs; null where none has a value.
const EpochResult* best_epoch(std::span<const EpochResult> epochs, const BestBy& by);

// True where the last `patience` epochs were no better than one before them; 0: never.
bool stops_early(std::span<const EpochResult> epochs, const BestBy& by, std::int64_t patience);

}  // namespace stoker
