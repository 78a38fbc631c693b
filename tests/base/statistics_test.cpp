// Medians and bootstrap intervals; the coverage of the intervals on made-up noise.
#include "stoker/base/statistics.h"

#include <gtest/gtest.h>

#include "stoker/base/rng.h"

namespace stoker {
namespace {

// `count` ratios around `true_ratio` with noise of up to `spread` either way.
std::vector<double> noisy(double true_ratio, double spread, int count, std::uint64_t seed) {
    Rng rng({.seed = seed});
    std::vector<double> values;
    for (int i = 0; i < count; ++i) {
        values.push_back(true_ratio * (1 + spread * (2 * static_cast<double>(rng.uniform()) - 1)));
    }
    return values;
}

TEST(Statistics, Median) {
    EXPECT_EQ(median({3}), 3);
    EXPECT_EQ(median({4, 1, 3}), 3);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, Quantile) {
    EXPECT_EQ(quantile({5}, 0.3), 5);
    EXPECT_EQ(quantile({1, 3, 2}, 0), 1);
    EXPECT_EQ(quantile({1, 3, 2}, 1), 3);
    EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
}

TEST(Statistics, TheSameValuesGiveTheSameInterval) {
    const std::vector<double> values = noisy(1.1, 0.05, 9, 1);
    const Estimate one = bootstrap_median(values);
    const Estimate two = bootstrap_median(values);
    EXPECT_EQ(one.low, two.low);
    EXPECT_EQ(one.high, two.high);
    EXPECT_LE(one.low, one.median);
    EXPECT_LE(one.median, one.high);
    EXPECT_EQ(one.median, median(values));
}

// A bootstrap of few values covers a little less than 95 %.
TEST(Statistics, TheIntervalHoldsTheTrueRatio) {
    int held = 0;
    constexpr int kTrials = 200;
    for (int i = 0; i < kTrials; ++i) {
        const Estimate found = bootstrap_median(noisy(1.2, 0.1, 15, static_cast<std::uint64_t>(i)));
        held += found.low <= 1.2 && 1.2 <= found.high ? 1 : 0;
    }
    EXPECT_GE(held, kTrials * 90 / 100);
}

TEST(Statistics, DecidesWhenTheWholeIntervalIsOnOneSide) {
    EXPECT_EQ(decide({.low = 1.03, .median = 1.1, .high = 1.2}, 0.02), Decision::better);
    EXPECT_EQ(decide({.low = 1.01, .median = 1.1, .high = 1.2}, 0.02), Decision::open);
    EXPECT_EQ(decide({.low = 0.9, .median = 1.0, .high = 1.01}, 0.02), Decision::worse);
}

// The A/A control: what is the same is never called better.
TEST(Statistics, EqualContendersAreNotCalledBetter) {
    int better = 0;
    for (int i = 0; i < 200; ++i) {
        better += decide(bootstrap_median(noisy(1.0, 0.06, 7, static_cast<std::uint64_t>(i))), 0.02) == Decision::better
                      ? 1
                      : 0;
    }
    EXPECT_LE(better, 4);
}

}  // namespace
}  // namespace stoker
