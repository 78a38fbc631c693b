// What `stoker train` says before it begins: data, model, device, and what of the recipe will do nothing.
#pragma once

#include <string>
#include <vector>

#include "stoker/train/trainer.h"

namespace stoker::cli {

void print_plan(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes);

// Settings that come to nothing in a run of that length, a line each.
std::vector<std::string> without_effect(const Recipe& recipe, std::int64_t steps_an_epoch);

}  // namespace stoker::cli
