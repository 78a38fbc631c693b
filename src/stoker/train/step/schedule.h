// The learning rate as a function of the step and of the epochs before: no state, so resuming needs none.
#pragma once

#include <cstdint>
#include <span>

#include "stoker/recipe/recipe.h"

namespace stoker {

// Where a step lies in its run.
struct StepPlace {
    std::int64_t step = 0;   // from 0
    std::int64_t total = 0;  // steps of the run
    std::int64_t steps_per_epoch = 1;
};

// The rate for a step, by PyTorch's formulas (torch.optim.lr_scheduler), of which PyTorch takes the first two and the
// last one step at a time too: linear is LinearLR from 1 to end_factor, cosine is CosineAnnealingLR, each over the
// steps after the warm-up; step and multi_step are StepLR and MultiStepLR by epochs; plateau is ReduceLROnPlateau on
// `val_losses`, those of the finished epochs; one_cycle is OneCycleLR with cosine annealing and without a cycle of the
// momentum. Warm-up is LinearLR from warmup_factor to 1, and multiplies what the schedule gives.
double learning_rate(const ScheduleRecipe& schedule, double lr, const StepPlace& place,
                     std::span<const double> val_losses = {});

}  // namespace stoker
