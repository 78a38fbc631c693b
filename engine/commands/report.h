// Results on a terminal: the table of epochs, and where the training thread and the loader threads spent their time.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal/progress.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {

// The last column is the task's main metric.
std::string epoch_header(const Task& task);
std::string epoch_line(const EpochResult& epoch, std::int64_t epochs, const Task& task);
std::string bubble_line(const Bubble& bubble);

// "accuracy 98.20 %", "mae 0.0312".
std::string metric_text(const Metric& metric);

// One bar per phase, largest first; "unmeasured" is always shown. Then one bar per stage of the loader threads.
std::string account_report(const TrainResult& result);

// "evaluating 40 % ..."
void show_progress(ProgressBar& bar, const EvaluationProgress& at);

}  // namespace stoker::cli
