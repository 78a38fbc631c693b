// Intervals of means of dependent steps, against means of many series of the same kind.
#include "stoker/diagnose/comparison/block_bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "stoker/base/statistics.h"

namespace stoker {
namespace {

// Steps around 10 ms; each keeps `lasting` of the deviation of the step before.
std::vector<PhaseSeconds> series(std::size_t steps, double lasting, unsigned seed, double slope = 0) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<PhaseSeconds> out(steps);
    double state = normal(random);
    for (std::size_t i = 0; i < steps; ++i) {
        state = lasting * state + std::sqrt(1 - lasting * lasting) * normal(random);
        out[i][0] = 4e-3 + 1e-3 * state + slope * static_cast<double>(i) / static_cast<double>(steps);
        out[i][2] = 6e-3;
    }
    return out;
}

double mean_of(const std::vector<PhaseSeconds>& steps) {
    double sum = 0;
    for (const PhaseSeconds& step : steps) {
        sum += sum_of(step) / static_cast<double>(steps.size());
    }
    return sum;
}

double coverage(std::size_t steps, double lasting) {
    int holds = 0;
    constexpr int kSeries = 60;
    for (unsigned seed = 0; seed < kSeries; ++seed) {
        const std::vector<PhaseSeconds> one = series(steps, lasting, seed);
        const SeriesSpread spread = spread_of(one);
        std::vector<double> means;
        for (const PhaseSeconds& draw : draw_means(one, spread, seed)) {
            means.push_back(mean_of(one) + spread.widening * (sum_of(draw) - mean_of(one)));
        }
        holds += quantile(means, 0.025) <= 10e-3 && quantile(means, 0.975) >= 10e-3 ? 1 : 0;
    }
    return static_cast<double>(holds) / kSeries;
}

TEST(BlockBootstrap, IntervalsHoldTheMeanOfIndependentSteps) {
    const double share = coverage(200, 0);
    EXPECT_GE(share, 0.9);
    EXPECT_LE(share, 0.999) << "no wider than they have to be";
    EXPECT_GE(coverage(12, 0), 0.9) << "of few steps";
}

TEST(BlockBootstrap, IntervalsHoldTheMeanOfDependentSteps) {
    EXPECT_GE(coverage(500, 0.9), 0.88);
    EXPECT_GE(coverage(400, 0.8), 0.88);
}

// Few blocks are independent, and the widening knows.
TEST(BlockBootstrap, IntervalsHoldTheMeanOfShortSeriesThatDependLong) {
    EXPECT_GE(coverage(60, 0.9), 0.85);
    EXPECT_GE(coverage(400, 0.97), 0.85);
}

TEST(BlockBootstrap, StepsThatDependHaveALargerError) {
    const double ratio = spread_of(series(2000, 0.9, 1)).error / spread_of(series(2000, 0, 1)).error;
    EXPECT_NEAR(ratio, std::sqrt(1.9 / 0.1), 2);
}

TEST(BlockBootstrap, TheErrorIsThatOfTheMean) {
    std::vector<double> means;
    double errors = 0;
    constexpr unsigned kSeries = 100;
    for (unsigned seed = 0; seed < kSeries; ++seed) {
        const std::vector<PhaseSeconds> one = series(1000, 0.8, seed);
        means.push_back(mean_of(one) - 10e-3);
        errors += spread_of(one).error / kSeries;
    }
    double squares = 0;
    for (const double mean : means) {
        squares += mean * mean / kSeries;
    }
    EXPECT_NEAR(errors / std::sqrt(squares), 1.1, 0.3);
}

TEST(BlockBootstrap, DriftIsSeenBeyondChance) {
    EXPECT_DOUBLE_EQ(spread_of(series(1000, 0, 1)).drift, 0);
    EXPECT_GT(spread_of(series(1000, 0, 1, 4e-3)).drift, 3e-3);
    EXPECT_LT(spread_of(series(1000, 0, 1, 4e-3)).error, 0.1e-3) << "the trend is left out";
}

// The reference: each draw as a sum of single steps.
TEST(BlockBootstrap, DrawsHaveTheMeanAndTheParts) {
    const std::vector<PhaseSeconds> steps = series(500, 0, 3);
    const std::vector<PhaseSeconds> draws = draw_means(steps, {}, 7);
    ASSERT_EQ(draws.size(), static_cast<std::size_t>(kDraws));
    double sum = 0;
    double squares = 0;
    for (const PhaseSeconds& draw : draws) {
        EXPECT_NEAR(draw[2], 6e-3, 1e-12) << "a phase without noise";
        sum += sum_of(draw) / kDraws;
        squares += std::pow(sum_of(draw) - mean_of(steps), 2) / kDraws;
    }
    EXPECT_NEAR(sum, mean_of(steps), 1e-5);
    EXPECT_NEAR(std::sqrt(squares), spread_of(steps).error, 0.2 * spread_of(steps).error);
}

TEST(BlockBootstrap, LongSeriesAreThinned) {
    const std::vector<PhaseSeconds> steps = series(50000, 0.5, 3);
    const SeriesSpread spread = spread_of(steps);
    EXPECT_GE(spread.block, 13U);
    double sum = 0;
    for (const PhaseSeconds& draw : draw_means(steps, spread, 7)) {
        sum += sum_of(draw) / kDraws;
    }
    EXPECT_NEAR(sum, 10e-3, 1e-4);
}

TEST(BlockBootstrap, FewStepsHaveNoDraws) {
    EXPECT_TRUE(draw_means(series(3, 0, 1), {}, 1).empty());
    EXPECT_EQ(spread_of({}).error, 0);
}

}  // namespace
}  // namespace stoker
