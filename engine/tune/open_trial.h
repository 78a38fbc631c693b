// Trials as child processes of this program.
#pragma once

#include <atomic>
#include <string>

#include "stoker/tune/trial.h"

namespace stoker::cli {

// `stop` must outlive the trials.
OpenTrial trial_opener(const std::string& recipe_path, const std::atomic<int>& stop);

}  // namespace stoker::cli
