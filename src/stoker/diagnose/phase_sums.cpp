#include "stoker/diagnose/phase_sums.h"

namespace stoker {

void add_times(PhaseTimes& sum, const PhaseTimes& times) {
    for (std::size_t i = 0; i < kPhases; ++i) {
        sum[i] += times[i];
    }
}

StepRecord sum_of_steps(std::span<const StepEntry> steps) {
    StepRecord sum;
    for (const StepEntry& step : steps) {
        add_times(sum.times, step.host.times);
    }
    return sum;
}

StepRecord sum_of_evaluations(std::span<const EvaluationEntry> evaluations) {
    StepRecord sum;
    for (const EvaluationEntry& evaluation : evaluations) {
        add_times(sum.times, evaluation.host.times);
    }
    return sum;
}

}  // namespace stoker
