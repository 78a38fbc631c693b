// What `stoker train` prints on stderr before the first step.
#pragma once

#include <string>

#include "stoker/train/trainer.h"

namespace stoker::cli {

// Data, model, device, run folder, and the recipe's settings that have no effect in a run of this length.
void print_run_summary(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes);

}  // namespace stoker::cli
