// The learning rate as a function of the step and of earlier epochs' losses, without state to save.
#pragma once

#include <cstdint>
#include <span>

#include "stoker/recipe/recipe.h"

namespace stoker {

// The position of a step in its run.
struct StepPosition {
    std::int64_t step = 0;   // from 0
    std::int64_t total = 0;  // steps of the run
    std::int64_t steps_per_epoch = 1;
};

// The learning rate of a step by the formulas of torch.optim.lr_scheduler. linear (LinearLR from 1 to end_factor) and
// cosine (CosineAnnealingLR) go over the steps after the warm-up; step (StepLR) and multi_step (MultiStepLR) change by
// epoch; plateau is ReduceLROnPlateau on `val_losses`, those of the finished epochs; one_cycle is OneCycleLR with
// cosine annealing and constant momentum, by step. The warm-up, LinearLR from warmup_factor to 1, multiplies the
// schedule's rate.
double learning_rate(const ScheduleRecipe& schedule, double lr, const StepPosition& position,
                     std::span<const double> val_losses = {});

}  // namespace stoker
