// The order of an epoch: a permutation at any size, uniformly distributed, and uncorrelated between epochs and seeds.
#include "stoker/pipeline/sampling/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace stoker {
namespace {

std::vector<std::int64_t> values(const Permutation& permutation) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(permutation.size()));
    for (std::size_t i = 0; i < list.size(); ++i) {
        list[i] = permutation(static_cast<std::int64_t>(i));
    }
    return list;
}

bool is_bijective(const Permutation& permutation) {
    std::vector<bool> seen(static_cast<std::size_t>(permutation.size()));
    for (const std::int64_t value : values(permutation)) {
        if (value < 0 || value >= permutation.size() || seen[static_cast<std::size_t>(value)]) {
            return false;
        }
        seen[static_cast<std::size_t>(value)] = true;
    }
    return true;
}

// (statistic - expectation) / standard deviation of a chi-square test that all counts are alike.
double chi_square_z(const std::vector<std::int64_t>& counts, double freedom) {
    const double mean = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) /
                        static_cast<double>(counts.size());
    double sum = 0;
    for (const std::int64_t count : counts) {
        sum += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean) / mean;
    }
    return (sum - freedom) / std::sqrt(2 * freedom);
}

double correlation(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    const double n = static_cast<double>(a.size());
    const double mean = (n - 1) / 2;
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        sum += (static_cast<double>(a[i]) - mean) * (static_cast<double>(b[i]) - mean);
    }
    return sum / (n * (n * n - 1) / 12);
}

TEST(Permutation, IsBijectiveAtEverySizeUpTo300) {
    for (std::int64_t size = 1; size <= 300; ++size) {
        for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
            ASSERT_TRUE(is_bijective({size, 42, epoch})) << "size " << size << ", epoch " << epoch;
        }
    }
}

TEST(Permutation, IsBijectiveAtLargeSizes) {
    for (const std::int64_t size : {511, 512, 513, 4095, 4097, 50'000, 60'000, 65'536, 65'537, 99'991, 1'000'003}) {
        ASSERT_TRUE(is_bijective({size, 7, 1})) << "size " << size;
    }
}

TEST(Permutation, HugeSizesWorkPointByPoint) {
    for (const std::int64_t size : {std::int64_t{1'000'000'000}, (std::int64_t{1} << 32) + 1, std::int64_t{1} << 62}) {
        const Permutation permutation(size, 3, 2);
        std::vector<std::int64_t> seen;
        double sum = 0;
        constexpr std::int64_t kPoints = 20'000;
        for (std::int64_t i = 0; i < kPoints; ++i) {
            const std::int64_t value = permutation(i % 2 == 0 ? i : size - 1 - i);
            ASSERT_GE(value, 0);
            ASSERT_LT(value, size);
            seen.push_back(value);
            sum += static_cast<double>(value) / static_cast<double>(size);
        }
        std::sort(seen.begin(), seen.end());
        EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "two positions share a value";
        // The mean of 20,000 uniform values: standard deviation 0.002.
        EXPECT_NEAR(sum / kPoints, 0.5, 0.01) << "size " << size;
    }
}

TEST(Permutation, EmptyAndSingle) {
    EXPECT_EQ(Permutation(0, 1, 1).size(), 0);
    EXPECT_EQ(Permutation(1, 1, 1)(0), 0);
}

// Every value is equally likely at every position.
TEST(Permutation, PositionsAndValuesAreEven) {
    for (const std::int64_t size : {2, 3, 5, 10, 17, 64, 100, 257}) {
        std::vector<std::int64_t> counts(static_cast<std::size_t>(size * size));
        const auto epochs = static_cast<std::uint32_t>(std::max<std::int64_t>(20 * size, 2000));
        for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
            const Permutation permutation(size, 11, epoch);
            for (std::int64_t i = 0; i < size; ++i) {
                ++counts[static_cast<std::size_t>(i * size + permutation(i))];
            }
        }
        const auto freedom = static_cast<double>((size - 1) * (size - 1));
        EXPECT_LT(std::abs(chi_square_z(counts, freedom)), 5) << "size " << size;
    }
}

// Any value is equally likely to follow value v: neighbours are separated.
TEST(Permutation, NeighboursAreEven) {
    for (const std::int64_t size : {4, 10, 33}) {
        std::vector<std::int64_t> counts(static_cast<std::size_t>(size));  // of (next - value) mod size
        for (std::uint32_t epoch = 0; epoch < 20'000; ++epoch) {
            const auto order = values({size, 5, epoch});
            for (std::size_t i = 0; i + 1 < order.size(); ++i) {
                ++counts[static_cast<std::size_t>((order[i + 1] - order[i] + size) % size)];
            }
        }
        EXPECT_EQ(counts[0], 0);
        counts.erase(counts.begin());
        EXPECT_LT(std::abs(chi_square_z(counts, static_cast<double>(size - 2))), 5) << "size " << size;
    }
}

// All orders of four samples occur equally often.
TEST(Permutation, AllOrdersOfAFewSamplesAreEven) {
    std::vector<std::int64_t> counts(4 * 4 * 4 * 4);
    for (std::uint32_t epoch = 0; epoch < 48'000; ++epoch) {
        const auto order = values({4, 9, epoch});
        ++counts[static_cast<std::size_t>(((order[0] * 4 + order[1]) * 4 + order[2]) * 4 + order[3])];
    }
    std::erase(counts, 0);
    ASSERT_EQ(counts.size(), 24u);
    EXPECT_LT(std::abs(chi_square_z(counts, 23)), 5);
}

TEST(Permutation, EpochsAndSeedsAreUncorrelated) {
    constexpr std::int64_t kSize = 10'000;
    const double bound = 5 / std::sqrt(static_cast<double>(kSize));
    std::vector<std::int64_t> identity(kSize);
    std::iota(identity.begin(), identity.end(), 0);
    for (std::uint32_t step = 0; step < 40; ++step) {
        const auto order = values({kSize, 1, step});
        EXPECT_LT(std::abs(correlation(order, identity)), bound) << "epoch " << step << " and no shuffle";
        EXPECT_LT(std::abs(correlation(order, values({kSize, 1, step + 1}))), bound) << "epochs " << step << " + 1";
        EXPECT_LT(std::abs(correlation(values({kSize, step, 0}), values({kSize, std::uint64_t{step} + 1, 0}))), bound)
            << "seeds " << step << " + 1";
        EXPECT_LT(std::abs(correlation(values({kSize, step, 0}), values({kSize, std::uint64_t{step} << 32, 0}))),
                  step == 0 ? 2 : bound)
            << "seeds " << step << " and that << 32";
    }
}

TEST(Permutation, IsAFunctionOfItsArgumentsAlone) {
    EXPECT_EQ(values({1000, 8, 3}), values({1000, 8, 3}));
    EXPECT_NE(values({1000, 8, 3}), values({1000, 8, 4}));
    EXPECT_NE(values({1000, 8, 3}), values({1000, 9, 3}));
    // Fixed values: a release that changes the order breaks every saved state.
    const std::vector<std::int64_t> order = values({10, 7, 0});
    EXPECT_EQ(order, (std::vector<std::int64_t>{6, 4, 5, 9, 2, 7, 1, 3, 8, 0}));
    EXPECT_EQ(Permutation(1'000'000'000, 7, 5)(123'456'789), 906'508'546);
}

}  // namespace
}  // namespace stoker
