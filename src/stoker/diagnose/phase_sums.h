// Sums over the phases of several steps.
#pragma once

#include <span>

#include "stoker/records/records.h"

namespace stoker {

void add_times(PhaseTimes& sum, const PhaseTimes& times);

// The training thread's time in all steps, or in all evaluations.
StepRecord sum_of_steps(std::span<const StepEntry> steps);
StepRecord sum_of_evaluations(std::span<const EvaluationEntry> evaluations);

}  // namespace stoker
