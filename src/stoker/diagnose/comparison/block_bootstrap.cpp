// Series are thinned to sums of neighbours first, and sums of blocks come from running sums, so a draw costs one
// addition for each block and phase. Block lengths: Flyvbjerg and Petersen, "Error estimates on averages of correlated
// data" (1989): the error that blocks imply rises with their length until they are independent.
#include "stoker/diagnose/comparison/block_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace stoker {
namespace {

constexpr std::size_t kMostRows = 4096;
constexpr std::size_t kLeastBlocks = 10;

// Means of `times` neighbours; a rest at the end is left out.
std::vector<PhaseSeconds> thinned(std::span<const PhaseSeconds> steps, std::size_t times) {
    std::vector<PhaseSeconds> rows(steps.size() / times);
    for (std::size_t i = 0; i < rows.size() * times; ++i) {
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            rows[i / times][phase] += steps[i][phase] / static_cast<double>(times);
        }
    }
    return rows;
}

std::size_t thinning_of(std::size_t steps) {
    return (steps + kMostRows - 1) / kMostRows;
}

// The standard deviation of the mean that the means of blocks of `block` values imply.
double error_with(std::span<const double> values, std::size_t block) {
    const std::size_t blocks = values.size() / block;
    std::vector<double> means(blocks);
    double mean = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
        for (std::size_t j = 0; j < block; ++j) {
            means[i] += values[i * block + j] / static_cast<double>(block);
        }
        mean += means[i] / static_cast<double>(blocks);
    }
    double squares = 0;
    for (const double one : means) {
        squares += (one - mean) * (one - mean);
    }
    const auto count = static_cast<double>(blocks);
    return std::sqrt(squares / (count - 1) / count);
}

double drift_of(std::span<const double> values, double error) {
    const std::size_t half = values.size() / 2;
    double difference = 0;
    for (std::size_t i = 0; i < half; ++i) {
        difference += (values[values.size() - 1 - i] - values[i]) / static_cast<double>(half);
    }
    const double chance = 4 * error;  // two standard deviations: that of a difference of halves is twice the mean's
    return std::sqrt(std::max(0.0, difference * difference - chance * chance));
}

// How much wider than a normal distribution's the interval of the mean of `blocks` values is: Student's t by its
// expansion in 1 / (blocks - 1), and the bias of drawing from the blocks themselves.
double widening(double blocks) {
    constexpr double kNormal = 1.96;
    const double z = kNormal;
    const double freedom = blocks - 1;
    const double t =
        z + (z * z * z + z) / (4 * freedom) + (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * freedom * freedom);
    return t / z * std::sqrt(blocks / freedom);
}

}  // namespace

SeriesSpread spread_of(std::span<const PhaseSeconds> steps) {
    SeriesSpread spread;
    if (steps.size() < kLeastSteps) {
        return spread;
    }
    const std::size_t times = thinning_of(steps.size());
    std::vector<double> values;
    for (const PhaseSeconds& row : thinned(steps, times)) {
        values.push_back(sum_of(row));
    }
    spread.error = error_with(values, 1);
    spread.block = times;
    for (std::size_t block = 2; values.size() / block >= kLeastBlocks; block *= 2) {
        if (const double error = error_with(values, block); error > spread.error) {
            spread.error = error;
            spread.block = block * times;
        }
    }
    spread.drift = drift_of(values, spread.error);
    return spread;
}

std::vector<PhaseSeconds> draw_means(std::span<const PhaseSeconds> steps, std::size_t block, std::uint64_t seed) {
    if (steps.size() < kLeastSteps) {
        return {};
    }
    const std::size_t times = thinning_of(steps.size());
    const std::vector<PhaseSeconds> rows = thinned(steps, times);
    const std::size_t length = std::max<std::size_t>(block / times, 1);
    const std::size_t blocks = std::max<std::size_t>(rows.size() / length, 1);
    std::vector<PhaseSeconds> running(rows.size() + length + 1);  // sums of the rows before, around the end
    for (std::size_t i = 0; i + 1 < running.size(); ++i) {
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            running[i + 1][phase] = running[i][phase] + rows[i % rows.size()][phase];
        }
    }
    const PhaseSeconds& all = running[rows.size()];
    const auto count = static_cast<double>(rows.size());
    const auto drawn = static_cast<double>(blocks * length);
    const double factor = widening(static_cast<double>(std::max<std::size_t>(blocks, kLeastSteps)));
    std::mt19937_64 random(seed);
    std::vector<PhaseSeconds> draws(kDraws);
    for (PhaseSeconds& draw : draws) {
        for (std::size_t i = 0; i < blocks; ++i) {
            const std::size_t start = random() % rows.size();
            for (std::size_t phase = 0; phase < kPhases; ++phase) {
                draw[phase] += running[start + length][phase] - running[start][phase];
            }
        }
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            const double mean = all[phase] / count;
            draw[phase] = mean + factor * (draw[phase] / drawn - mean);
        }
    }
    return draws;
}

}  // namespace stoker
