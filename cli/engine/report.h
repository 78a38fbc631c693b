// How results look on a terminal: the table of epochs, the step account, the workers' table.
#pragma once

#include <string>

#include "stoker/train/trainer.h"

namespace stoker::cli {

std::string epoch_header();
std::string epoch_line(const EpochResult& epoch, std::int64_t epochs);

// One bar a phase, largest first, "unmeasured" always shown; then where the workers' time went, per thread.
std::string account_report(const TrainResult& result);

}  // namespace stoker::cli
