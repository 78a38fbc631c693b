// Medians and their intervals; the coverage of the intervals on made-up noise.
#include "stoker/base/statistics.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"
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

TEST(Statistics, NothingHasNoMedian) {
    EXPECT_THROW(median({}), InvalidArgument);
    EXPECT_THROW(quantile({}, 0.5), InvalidArgument);
    EXPECT_THROW(median_interval({}), InvalidArgument);
}

// The ranks are those of the published tables of the sign test.
TEST(Statistics, TheIntervalOfAMedian) {
    const auto interval = [](int count) {
        std::vector<double> values;
        for (int i = count; i > 0; --i) {
            values.push_back(i);
        }
        return median_interval(values);
    };
    for (int count = 1; count <= 5; ++count) {
        EXPECT_FALSE(interval(count).has_interval()) << count;
        EXPECT_EQ(decide(interval(count), 0.02), Decision::open) << count;
    }
    EXPECT_EQ(interval(6).low, 1);
    EXPECT_EQ(interval(6).median, 3.5);
    EXPECT_EQ(interval(6).high, 6);
    EXPECT_EQ(interval(8).low, 1);
    EXPECT_EQ(interval(9).low, 2);
    EXPECT_EQ(interval(9).high, 8);
    EXPECT_EQ(interval(15).low, 4);
    EXPECT_EQ(interval(15).high, 12);
    EXPECT_EQ(interval(10'000).low, 4902);  // 2^-10000 is below any double
}

TEST(Statistics, TheIntervalHoldsTheTrueRatio) {
    constexpr int kTrials = 2000;
    for (const int count : {6, 7, 9, 15}) {
        int held = 0;
        for (int i = 0; i < kTrials; ++i) {
            const Estimate found = median_interval(noisy(1.2, 0.1, count, static_cast<std::uint64_t>(i)));
            held += found.low <= 1.2 && 1.2 <= found.high ? 1 : 0;
        }
        EXPECT_GE(held, kTrials * 94 / 100) << count;
    }
}

TEST(Statistics, DecidesWhenTheWholeIntervalIsOnOneSide) {
    EXPECT_EQ(decide({.low = 1.03, .median = 1.1, .high = 1.2}, 0.02), Decision::better);
    EXPECT_EQ(decide({.low = 1.01, .median = 1.1, .high = 1.2}, 0.02), Decision::open);
    EXPECT_EQ(decide({.low = 0.9, .median = 1.0, .high = 1.01}, 0.02), Decision::worse);
}

// The A/A control: equal contenders are never called better.
TEST(Statistics, EqualContendersAreNotCalledBetter) {
    int better = 0;
    for (int i = 0; i < 200; ++i) {
        better += decide(median_interval(noisy(1.0, 0.06, 7, static_cast<std::uint64_t>(i))), 0.02) == Decision::better
                      ? 1
                      : 0;
    }
    EXPECT_LE(better, 4);
}

}  // namespace
}  // namespace stoker
