// Paired comparisons of made-up contenders on a machine whose speed changes.
#include "stoker/tune/paired.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stoker/base/rng.h"

namespace stoker::paired_test {
namespace {

// Rates on a machine that becomes slower and faster by half, with noise of 3 % in each measurement.
class Machine {
  public:
    explicit Machine(std::uint64_t seed) : rng_({.seed = seed}) {}
    double measure(double rate) {
        ++measured_;
        return rate * (1 + 0.5 * std::sin(0.2 * measured_)) * (0.97 + 0.06 * static_cast<double>(rng_.uniform()));
    }
    int measured() const { return static_cast<int>(measured_); }

  private:
    Rng rng_;
    double measured_ = 0;
};

PairedResult compare_rates(Machine& machine, double a, double b, const PairedOptions& options = {}) {
    return compare_paired([&] { return machine.measure(a); }, [&] { return machine.measure(b); }, options,
                          [] { return false; });
}

TEST(Paired, FindsAGainAlthoughTheMachineChanges) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Machine machine(seed);
        found += compare_rates(machine, 100, 115).decision == Decision::better ? 1 : 0;
    }
    EXPECT_GE(found, 45);
}

TEST(Paired, AControlOfEqualContendersFindsNothing) {
    int better = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Machine machine(seed);
        better += compare_rates(machine, 100, 100).decision == Decision::better ? 1 : 0;
    }
    EXPECT_LE(better, 10);
}

TEST(Paired, LargeDifferencesEndEarly) {
    Machine machine(1);
    EXPECT_EQ(compare_rates(machine, 100, 200).decision, Decision::better);
    EXPECT_EQ(machine.measured(), 12) << "six pairs";
    Machine other(1);
    EXPECT_EQ(compare_rates(other, 100, 50).decision, Decision::worse);
    EXPECT_EQ(other.measured(), 12);
}

// Comparisons of equal contenders take a third less time, and a gain is found as often.
TEST(Paired, WhatPromisesNothingEndsEarly) {
    std::size_t pairs = 0;
    std::size_t all_pairs = 0;
    int found = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Machine machine(seed);
        pairs += compare_rates(machine, 100, 100, {.worth = 1}).a.size();
        all_pairs += compare_rates(machine, 100, 100).a.size();
        found += compare_rates(machine, 100, 115, {.worth = 1}).decision == Decision::better ? 1 : 0;
    }
    EXPECT_LT(3 * pairs, 2 * all_pairs);
    EXPECT_GE(found, 90);
}

TEST(Paired, MeasuresAtMostSoManyPairs) {
    Machine machine(2);
    const PairedResult result = compare_rates(machine, 100, 102, {.margin = 0.02, .least = 5, .most = 6});
    EXPECT_LE(result.a.size(), 6);
    EXPECT_EQ(result.a.size(), result.b.size());
}

TEST(Paired, EndsWhenTheTimeIsOver) {
    Machine machine(3);
    const PairedResult result = compare_paired([&] { return machine.measure(100); },
                                               [&] { return machine.measure(101); }, {}, [] { return true; });
    EXPECT_EQ(result.a.size(), 1);
    EXPECT_EQ(result.decision, Decision::open);
}

// Gains of 4 % in one pair of two and none in the others do not count as a gain.
TEST(Paired, AnOpenComparisonIsNotBetter) {
    int pair = 0;
    const PairedResult result = compare_paired(
        [] { return 100.0; }, [&pair] { return ++pair % 3 == 0 ? 101.0 : 104.0; }, {}, [] { return false; });
    EXPECT_EQ(result.b.size(), 15);
    EXPECT_GT(result.ratio.median, 1.02);
    EXPECT_EQ(result.decision, Decision::open);
}

TEST(Paired, DecidesAfterSixPairsAtTheEarliest) {
    const auto slow = [] { return 100.0; };
    const auto fast = [] { return 200.0; };
    EXPECT_EQ(compare_paired(slow, fast, {}, [] { return false; }).b.size(), 6);
    EXPECT_EQ(compare_paired(slow, fast, {.margin = 0, .least = 7, .most = 7}, [] { return false; }).b.size(), 7);
    const PairedResult one = compare_paired(slow, fast, {}, [] { return true; });
    EXPECT_EQ(one.b.size(), 1);
    EXPECT_FALSE(one.ratio.has_interval());
    EXPECT_EQ(one.decision, Decision::open);
}

}  // namespace
}  // namespace stoker::paired_test
