// Results on a terminal: the table of epochs, and where the training thread and the loader threads spent their time.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal/progress.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {

std::string epoch_header();
std::string epoch_line(const EpochResult& epoch, std::int64_t epochs);

// One bar per phase, largest first; "unmeasured" is always shown. Then one bar per stage of the loader threads.
std::string account_report(const TrainResult& result);

// "evaluating 40 % ..."
void show_progress(ProgressBar& bar, const EvaluationProgress& at);

}  // namespace stoker::cli
