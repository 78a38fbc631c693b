// The mean time of a step and its uncertainty, for the steps of one run and between two.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/diagnose/comparison/block_bootstrap.h"
#include "stoker/diagnose/comparison/differing_facts.h"
#include "stoker/diagnose/comparison/interval.h"

namespace stoker {

// A step's mean time by phase with its part of rare costs, and the draws of it.
struct Drawn {
    PhaseSeconds mean = {};
    std::vector<PhaseSeconds> draws = {};
    SeriesSpread spread = {};
};

Drawn drawn(const StepTimes& times, std::uint64_t seed);

// All times become `factor` times as long.
void scale(Drawn& drawn, double factor);

// Seconds of a phase: B's less A's.
Interval difference_of(const Drawn& a, const Drawn& b, std::size_t phase);

// ln(B's time / A's).
Interval log_ratio_of(const Drawn& a, const Drawn& b);

// Parts of a run's time, which its steps do not show.
struct Hidden {
    double drift = 0;  // of one step to the other end of the run
    double taken = 0;  // of the cores' time, by others, while none was free
};

Hidden hidden_of(const Side& side, const Drawn& drawn);

// The ratio, wider by the noise between runs and by drift.
Interval between_runs(const Interval& log_ratio, const Hidden& a, const Hidden& b);

// And by what others may have taken.
Interval with_load(Interval ratio, const Hidden& a, const Hidden& b);

}  // namespace stoker
