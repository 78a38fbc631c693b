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

// What a series of steps says about its mean, for the totals of its steps.
struct SeriesSpread {
    std::size_t block = 1;  // steps: the length at which the means of blocks vary most beyond their length
    double error = 0;       // standard deviation of the mean, in seconds
    double drift = 0;       // seconds by which the second half differs from the first beyond chance
};

SeriesSpread spread_of(std::span<const PhaseSeconds> steps);

// `kDraws` means by phase, each of as many steps as there are. Blocks wrap around the end. Deviations from the mean are
// widened where there are few blocks, as by Student's t. Empty for fewer than kLeastSteps.
std::vector<PhaseSeconds> draw_means(std::span<const PhaseSeconds> steps, std::size_t block, std::uint64_t seed);

}  // namespace stoker
