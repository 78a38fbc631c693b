// Means of steps that depend on their neighbours, drawn again and again: a bootstrap of blocks. Steps of a run are not
// independent, since a slow one is followed by others, so whole blocks of neighbours are drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/diagnose/comparison/step_times.h"

namespace stoker {

inline constexpr std::size_t kLeastSteps = 4;  // fewer have no interval
inline constexpr int kDraws = 2000;

// The uncertainty of the mean of a series, for the totals of its steps.
struct SeriesSpread {
    std::size_t block = 1;  // steps: the length at which the means of blocks vary most beyond their length
    double error = 0;       // standard deviation of the mean, in seconds, blocks that still depend included
    double widening = 1;    // for the deviations of draws: blocks still depend on each other, and may be few
    double drift = 0;       // seconds from the first step to the last along their trend; 0: it may be chance
};

SeriesSpread spread_of(std::span<const PhaseSeconds> steps);

// `kDraws` means by phase, each of as many steps as there are. Blocks wrap around the end. Empty for fewer than
// kLeastSteps.
std::vector<PhaseSeconds> draw_means(std::span<const PhaseSeconds> steps, const SeriesSpread& spread,
                                     std::uint64_t seed);

}  // namespace stoker
