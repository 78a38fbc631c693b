// Series are thinned to sums of neighbours first, and sums of blocks come from running sums, so a draw costs one
// addition for each block and phase. Block lengths: Flyvbjerg and Petersen, "Error estimates on averages of correlated
// data" (1989): the error that blocks imply rises with their length until they are independent.
#include "stoker/diagnose/comparison/block_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

std::vector<double> block_means(std::span<const double> values, std::size_t block) {
    std::vector<double> means(values.size() / block);
    for (std::size_t i = 0; i < means.size() * block; ++i) {
        means[i / block] += values[i] / static_cast<double>(block);
    }
    return means;
}

struct MeanError {
    double of_blocks = 0;  // the standard deviation of the mean if the blocks are independent
    double of_mean = 0;    // and as far as neighbours depend
};

// A series in which each value keeps a part r of the deviation of the one before has an error sqrt((1 + r) / (1 - r))
// times as large. The estimate of r is too low by (1 + 3 r) / n (Kendall 1954).
MeanError error_with(std::span<const double> values, std::size_t block) {
    constexpr double kMostKept = 0.96;
    constexpr double kEnough = 20;  // blocks, to estimate it from
    const std::vector<double> means = block_means(values, block);
    const auto count = static_cast<double>(means.size());
    const double mean = std::accumulate(means.begin(), means.end(), 0.0) / count;
    double squares = 0;
    double products = 0;
    for (std::size_t i = 0; i < means.size(); ++i) {
        squares += (means[i] - mean) * (means[i] - mean);
        products += i > 0 ? (means[i] - mean) * (means[i - 1] - mean) : 0;
    }
    const double error = std::sqrt(squares / (count - 1) / count);
    double kept = squares > 0 ? products / squares : 0;
    if (count < kEnough || kept * std::sqrt(count) < 1) {  // it may be chance
        return {.of_blocks = error, .of_mean = error};
    }
    kept = std::min(kept + (1 + 3 * kept) / count, kMostKept);
    return {.of_blocks = error, .of_mean = error * std::sqrt((1 + kept) / (1 - kept))};
}

struct Worst {
    MeanError error = {};
    std::size_t block = 1;
};

// Over all lengths of blocks that leave enough of them.
Worst worst_error(std::span<const double> values) {
    Worst worst{.error = error_with(values, 1)};
    for (std::size_t block = 2; values.size() / block >= kLeastBlocks; block *= 2) {
        if (const MeanError error = error_with(values, block); error.of_mean > worst.error.of_mean) {
            worst = {.error = error, .block = block};
        }
    }
    return worst;
}

// The change from the first value to the last along the line through all, by least squares.
double trend_of(std::span<const double> values) {
    const double middle = static_cast<double>(values.size() - 1) / 2;
    double products = 0;
    double squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double at = static_cast<double>(i) - middle;
        products += at * values[i];
        squares += at * at;
    }
    return products / squares * 2 * middle;
}

std::vector<double> without_trend(std::vector<double> values, double trend) {
    const double last = static_cast<double>(values.size() - 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] -= trend * (static_cast<double>(i) / last - 0.5);
    }
    return values;
}

// How much wider than a normal distribution's the interval of the mean of so many independent values is: Student's t by
// its expansion in 1 / (values - 1), and the bias of drawing from the values themselves.
double few_values_factor(double values) {
    constexpr double kLeast = 4;
    constexpr double z = 1.96;
    const double freedom = std::max(values, kLeast) - 1;
    const double t =
        z + (z * z * z + z) / (4 * freedom) + (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * freedom * freedom);
    return t / z * std::sqrt((freedom + 1) / freedom);
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
    // A trend beyond chance would look like blocks that depend on each other forever.
    const double trend = std::abs(trend_of(values));
    const std::vector<double> level = without_trend(values, trend_of(values));
    const Worst around = worst_error(level);
    const double chance = 2 * std::sqrt(12.0) * around.error.of_mean;  // two standard deviations of a trend
    spread.drift = trend > chance ? trend : 0;
    const Worst worst = spread.drift > 0 ? around : worst_error(values);
    const MeanError single = error_with(spread.drift > 0 ? level : values, 1);
    spread.block = worst.block * times;
    spread.error = worst.error.of_mean;
    if (worst.error.of_blocks > 0) {
        // As many independent values would have this error.
        const double independent = static_cast<double>(values.size()) * std::pow(single.of_blocks / spread.error, 2);
        spread.widening = spread.error / worst.error.of_blocks * few_values_factor(independent);
    }
    return spread;
}

std::vector<PhaseSeconds> draw_means(std::span<const PhaseSeconds> steps, const SeriesSpread& spread,
                                     std::uint64_t seed) {
    if (steps.size() < kLeastSteps) {
        return {};
    }
    const std::size_t times = thinning_of(steps.size());
    const std::vector<PhaseSeconds> rows = thinned(steps, times);
    const std::size_t length = std::max<std::size_t>(spread.block / times, 1);
    const std::size_t blocks = std::max<std::size_t>(rows.size() / length, 1);
    std::vector<PhaseSeconds> running(rows.size() + length + 1);  // sums of the rows before, around the end
    for (std::size_t i = 0; i + 1 < running.size(); ++i) {
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            running[i + 1][phase] = running[i][phase] + rows[i % rows.size()][phase];
        }
    }
    const auto drawn = static_cast<double>(blocks * length);
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
            draw[phase] /= drawn;
        }
    }
    return draws;
}

}  // namespace stoker
