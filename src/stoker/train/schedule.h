// The learning rate as a function of the step: no state, so resuming needs none.
#pragma once

#include <cstdint>

#include "stoker/recipe/recipe.h"

namespace stoker {

// The rate for optimiser step `step` in [0, total). "one_cycle" is torch.optim.lr_scheduler.OneCycleLR
// with cosine annealing and without a cycle of the momentum: from lr / div_factor up to lr, then down to lr /
// div_factor / final_div_factor.
double learning_rate(const ScheduleRecipe& schedule, double lr, std::int64_t step, std::int64_t total);

}  // namespace stoker
