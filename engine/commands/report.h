// How results look on a terminal: the table of epochs, the step account, the workers' table.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal/progress.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {

// None where the loss is not a finite number: what such a model hits is chance.
std::optional<double> accuracy_of(const EpochResult& epoch);

std::string epoch_header();
std::string epoch_line(const EpochResult& epoch, std::int64_t epochs);

// One bar a phase, largest first, "unmeasured" always shown; then where the workers' time went, per thread.
std::string account_report(const TrainResult& result);

// "evaluating 40 % ..."
void show(ProgressBar& bar, const EvaluationProgress& at);

}  // namespace stoker::cli
