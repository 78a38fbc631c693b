// Philox against Random123's published vectors, streams that do not overlap, and uniform draws.
#include "stoker/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stoker {
namespace {

// philox4x32-10 in Random123's known-answer file (kat_vectors).
constexpr std::uint32_t kOnes = 0xffffffff;
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, MatchesThePublishedVectorsAtRunTime) {
    volatile std::uint32_t zero = 0;  // keeps the compiler from folding the call
    EXPECT_EQ(philox4x32({zero, zero, zero, zero}, {zero, zero}),
              (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox4x32({~zero, ~zero, ~zero, ~zero}, {~zero, ~zero}),
              (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

PhiloxCounter first_block(const RngKey& key) {
    Rng rng(key);
    PhiloxCounter block{};
    std::generate(block.begin(), block.end(), [&] { return rng.next(); });
    return block;
}

// The order of samples and all augmentations depend on this layout, so it must never change.
TEST(Rng, LaysTheKeyOutAsDocumented) {
    const RngKey key{
        .seed = 0x1111111122222222, .epoch = 0x33333333, .sample = 0x444455555555, .occurrence = 0x6666, .op = 0x7777};
    Rng rng(key);
    for (std::uint32_t block = 0; block < 5; ++block) {
        const PhiloxCounter expected =
            philox4x32({0x77770000u + block, 0x55555555, 0x66664444, 0x33333333}, {0x22222222, 0x11111111});
        for (const std::uint32_t word : expected) {
            EXPECT_EQ(rng.next(), word);
        }
    }
}

// The mapping from a draw to a number must not change either.
TEST(Rng, TakesTheHighBitsOfADraw) {
    Rng draws({.seed = 5});
    Rng numbers({.seed = 5});
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(numbers.uniform(), static_cast<float>(draws.next() / 256u) / 16777216.0f);
        ASSERT_EQ(numbers.below(1000), std::uint64_t{draws.next()} * 1000 / 4294967296u);
    }
}

TEST(Rng, StreamsOfDifferentKeysNeverMeet) {
    const std::vector<std::uint64_t> seeds = {0, 1, 7, 1ull << 31, 1ull << 32, (1ull << 63) + 1, ~0ull};
    const std::vector<std::uint32_t> epochs = {0, 1, 2, 65535, 65536, kOnes};
    const std::vector<std::uint64_t> samples = {0, 1, 2, 3, 255, 59999, 65536, kOnes, 1ull << 32, (1ull << 48) - 1};
    const std::vector<std::uint16_t> occurrences = {0, 1, 2, 256, 65535};
    const std::vector<std::uint16_t> ops = {0, 1, 2, 3, 32768, 65535};
    std::vector<PhiloxCounter> blocks;
    for (const auto seed : seeds) {
        for (const auto epoch : epochs) {
            for (const auto sample : samples) {
                for (const auto occurrence : occurrences) {
                    for (const auto op : ops) {
                        blocks.push_back(first_block({seed, epoch, sample, occurrence, op}));
                    }
                }
            }
        }
    }
    for (std::uint64_t sample = 1000; sample < 101000; ++sample) {
        blocks.push_back(first_block({.seed = 3, .epoch = 5, .sample = sample}));
    }
    const std::size_t count = blocks.size();
    std::sort(blocks.begin(), blocks.end());
    EXPECT_EQ(std::unique(blocks.begin(), blocks.end()) - blocks.begin(), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(count, 7u * 6 * 10 * 5 * 6 + 100000);
}

TEST(Rng, AStreamLastsForItsDocumentedNumberOfDraws) {
    Rng rng({.seed = 9, .op = 4});
    const PhiloxCounter next_op = first_block({.seed = 9, .op = 5});
    PhiloxCounter block{};
    for (int i = 0; i < 1 << 16; ++i) {
        std::generate(block.begin(), block.end(), [&] { return rng.next(); });
        ASSERT_NE(block, next_op) << "block " << i;
    }
}

// Pearson's chi-square statistic of counts whose expectation is equal.
double chi_square(const std::vector<int>& counts) {
    double total = 0;
    for (const int count : counts) {
        total += count;
    }
    const double expected = total / static_cast<double>(counts.size());
    double sum = 0;
    for (const int count : counts) {
        sum += (count - expected) * (count - expected) / expected;
    }
    return sum;
}

// The statistic must be within 4 standard deviations of its mean, on both sides: too even is also wrong.
void expect_uniform(const std::vector<int>& counts, const char* what) {
    const double freedom = static_cast<double>(counts.size()) - 1;
    EXPECT_NEAR(chi_square(counts), freedom, 4 * std::sqrt(2 * freedom)) << what;
}

TEST(Rng, IsUniformAlongAStream) {
    Rng rng({.seed = 1});
    std::vector<int> shares(64);
    std::vector<int> dice(10);
    std::vector<int> low_bits(256);
    for (int i = 0; i < 640000; ++i) {
        const float value = rng.uniform();
        ASSERT_TRUE(value >= 0.0f && value < 1.0f);
        ++shares[static_cast<std::size_t>(value * 64)];
        const std::uint32_t die = rng.below(10);
        ASSERT_LT(die, 10u);
        ++dice[die];
        ++low_bits[rng.next() & 255u];
    }
    expect_uniform(shares, "uniform()");
    expect_uniform(dice, "below(10)");
    expect_uniform(low_bits, "low bits");
}

// Augmentation uses the first draws of many neighbouring streams: these must be uniform, alone and in pairs.
TEST(Rng, IsUniformAcrossNeighbouringStreams) {
    std::vector<int> samples(100);
    std::vector<int> epochs(100);
    std::vector<int> pairs(16 * 16);
    for (std::uint32_t i = 0; i < 256000; ++i) {
        Rng here({.seed = 42, .epoch = 1, .sample = i});
        Rng next({.seed = 42, .epoch = 1, .sample = i + 1});
        Rng later({.seed = 42, .epoch = i, .sample = 17});
        const std::uint32_t draw = here.next();
        ++samples[(std::uint64_t{draw} * 100) >> 32];
        ++epochs[later.below(100)];
        ++pairs[(draw >> 28) * 16 + (next.next() >> 28)];
    }
    expect_uniform(samples, "samples");
    expect_uniform(epochs, "epochs");
    expect_uniform(pairs, "neighbours");
}

TEST(Rng, KeepsToItsBounds) {
    Rng rng({.seed = 2});
    for (int i = 0; i < 10000; ++i) {
        const float value = rng.uniform(-2.0f, 3.0f);
        ASSERT_TRUE(value >= -2.0f && value <= 3.0f);
        ASSERT_EQ(rng.below(1), 0u);
        ASSERT_LT(rng.below(kOnes), kOnes);
        ASSERT_FALSE(rng.chance(0.0f));
        ASSERT_TRUE(rng.chance(1.0f));
    }
    int hits = 0;
    for (int i = 0; i < 100000; ++i) {
        hits += rng.chance(0.3f) ? 1 : 0;
    }
    EXPECT_NEAR(hits, 30000, 4 * std::sqrt(100000 * 0.3 * 0.7));
}

TEST(Rng, DrawsNormalNumbers) {
    Rng rng({.seed = 3});
    constexpr int kCount = 200000;
    double sum = 0;
    double squares = 0;
    double fourths = 0;
    int beyond_two = 0;
    for (int i = 0; i < kCount; ++i) {
        const double value = rng.normal();
        ASSERT_TRUE(std::isfinite(value));
        sum += value;
        squares += value * value;
        fourths += value * value * value * value;
        beyond_two += std::abs(value) > 2 ? 1 : 0;
    }
    // Tolerances are 4 standard errors of each estimate.
    EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
    EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
    EXPECT_NEAR(fourths / kCount, 3, 4 * std::sqrt(96.0 / kCount));
    EXPECT_NEAR(beyond_two / static_cast<double>(kCount), 0.0455, 4 * std::sqrt(0.0455 / kCount));
}

}  // namespace
}  // namespace stoker
