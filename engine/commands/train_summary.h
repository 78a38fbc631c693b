// The lines of `stoker train` before the first step: data, model, device, and settings that are likely mistakes.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/recipe/recipe.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {

// Data, model, device, run folder, and the settings that have no effect in a run of this length.
void print_run_summary(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes);

// The checkpoint that a run continues from, and the settings that differ from it.
void print_resumed(const Resumed& resumed, const Recipe& recipe);

// The schedules that go over all steps of a run take another course if train.epochs has changed. Says what that does
// to the next step.
void print_schedule_change(const Resumed& resumed, const Recipe& recipe, std::int64_t steps_per_epoch);

}  // namespace stoker::cli
