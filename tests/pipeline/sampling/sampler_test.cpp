// Samplers: permutations, shares and windows. An epoch is the same whether it is drawn at once or in pieces.
#include "stoker/pipeline/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/pipeline/sampling/permutation.h"

namespace stoker::sampler_test {
namespace {

using ::testing::HasSubstr;

std::vector<SampledIndex> epoch_of(const Sampler& sampler, std::int64_t epoch) {
    std::vector<SampledIndex> draws(static_cast<std::size_t>(sampler.size()));
    sampler.draw(epoch, 0, draws);
    return draws;
}

std::vector<std::int64_t> indices_of(const std::vector<SampledIndex>& draws) {
    std::vector<std::int64_t> indices(draws.size());
    std::ranges::transform(draws, indices.begin(), &SampledIndex::index);
    return indices;
}

std::map<std::int64_t, int> counts_of(const std::vector<SampledIndex>& draws) {
    std::map<std::int64_t, int> counts;
    for (const SampledIndex& draw : draws) {
        ++counts[draw.index];
    }
    return counts;
}

// Samplers of every kind, over 100 samples.
std::vector<SamplerOptions> every_kind() {
    return {
        {.size = 100, .seed = 5},
        {.size = 100, .shuffle = false},
        {.size = 100, .seed = 5, .epoch_samples = 37},
        {.size = 100, .seed = 5, .epoch_samples = 370},
        {.size = 100, .shuffle = false, .epoch_samples = 130},
        {.size = 100, .seed = 5, .window = 16, .shards = {30, 1, 50, 19}},
        {.size = 100, .seed = 5, .window = 16},
        {.size = 100, .seed = 5, .groups = {{.weight = 3, .first = 0, .size = 10}, {.first = 10, .size = 90}}},
        {.size = 100, .seed = 5, .epoch_samples = 55, .groups = {{.indices = {1, 5, 9}}, {.indices = {2, 7, 8, 99}}}},
        {.size = 100, .shuffle = false, .groups = {{.indices = {1, 5, 9}}, {.indices = {2, 7, 8, 99}}}},
    };
}

TEST(Sampler, IsTheSameInWhateverPiecesItIsAskedFor) {
    for (const SamplerOptions& options : every_kind()) {
        const auto sampler = make_sampler(options);
        for (const std::int64_t epoch : {0, 1, 2, 77}) {
            const std::vector<SampledIndex> whole = epoch_of(*sampler, epoch);
            for (const std::size_t piece : {1, 7, 64}) {
                for (std::size_t begin = 0; begin < whole.size(); begin += piece) {
                    std::vector<SampledIndex> part(std::min(piece, whole.size() - begin));
                    sampler->draw(epoch, static_cast<std::int64_t>(begin), part);
                    for (std::size_t i = 0; i < part.size(); ++i) {
                        ASSERT_EQ(part[i].index, whole[begin + i].index) << sampler->name();
                        ASSERT_EQ(part[i].occurrence, whole[begin + i].occurrence) << sampler->name();
                    }
                }
            }
        }
    }
}

TEST(Sampler, NamesTellDifferentOrdersApart) {
    std::set<std::string> names;
    for (const SamplerOptions& options : every_kind()) {
        names.insert(make_sampler(options)->name());
    }
    EXPECT_EQ(names.size(), every_kind().size());
    EXPECT_EQ(make_sampler({.size = 100})->name(), make_sampler({.size = 200, .seed = 9})->name())
        << "size and seed are in the state itself";
}

// A pair (index, occurrence) that came twice would give the same augmentation twice.
TEST(Sampler, OccurrencesTellRepeatsApart) {
    for (const SamplerOptions& options : every_kind()) {
        const auto sampler = make_sampler(options);
        for (const std::int64_t epoch : {0, 1, 2, 3, 41}) {
            std::set<std::pair<std::int64_t, int>> seen;
            for (const SampledIndex& draw : epoch_of(*sampler, epoch)) {
                EXPECT_TRUE(seen.insert({draw.index, draw.occurrence}).second) << sampler->name();
            }
        }
    }
}

TEST(Sampler, ShuffledIsThePermutationOfItsEpoch) {
    const auto sampler = make_sampler({.size = 1000, .seed = 11});
    for (const std::int64_t epoch : {0, 3}) {
        const Permutation permutation(1000, 11, static_cast<std::uint32_t>(epoch));
        const auto indices = indices_of(epoch_of(*sampler, epoch));
        for (std::int64_t i = 0; i < 1000; ++i) {
            ASSERT_EQ(indices[static_cast<std::size_t>(i)], permutation(i));
        }
    }
}

TEST(Sampler, PassesGoOnFromEpochToEpoch) {
    const auto sampler = make_sampler({.size = 100, .seed = 2, .epoch_samples = 40});
    std::vector<SampledIndex> five_epochs;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
        const auto part = epoch_of(*sampler, epoch);
        five_epochs.insert(five_epochs.end(), part.begin(), part.end());
    }
    for (const auto& [index, count] : counts_of(five_epochs)) {
        EXPECT_EQ(count, 2) << "sample " << index << ": 5 x 40 draws are two passes over 100";
    }
}

TEST(Sampler, AWindowKeepsToTheSequenceOfShards) {
    Rng rng({.seed = 1});
    for (int round = 0; round < 200; ++round) {
        SamplerOptions options{.seed = rng.next()};
        for (std::uint32_t i = 0; i < 2 + rng.below(9); ++i) {
            options.shards.push_back(1 + rng.below(60));
        }
        options.size = std::accumulate(options.shards.begin(), options.shards.end(), std::int64_t{0});
        options.window = 1 + rng.below(40);
        if (options.window >= options.size) {
            continue;
        }
        const auto sampler = make_sampler(options);
        auto indices = indices_of(epoch_of(*sampler, round));
        // The reference: sorted windows give the sequence of shards.
        std::vector<std::int64_t> shard_of;
        for (std::size_t shard = 0; shard < options.shards.size(); ++shard) {
            shard_of.insert(shard_of.end(), static_cast<std::size_t>(options.shards[shard]),
                            static_cast<std::int64_t>(shard));
        }
        const auto window = static_cast<std::size_t>(options.window);
        std::vector<std::size_t> last_window(options.shards.size(), 0);
        std::vector<std::size_t> first_window(options.shards.size(), indices.size());
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const auto shard = static_cast<std::size_t>(shard_of[static_cast<std::size_t>(indices[i])]);
            first_window[shard] = std::min(first_window[shard], i / window);
            last_window[shard] = std::max(last_window[shard], i / window);
        }
        for (std::size_t shard = 0; shard < options.shards.size(); ++shard) {
            const auto windows = static_cast<std::size_t>(options.shards[shard] - 1) / window + 2;
            EXPECT_LE(last_window[shard] - first_window[shard] + 1, windows) << "a shard is read in one go";
        }
        std::ranges::sort(indices);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            ASSERT_EQ(indices[i], static_cast<std::int64_t>(i)) << "each sample once";
        }
    }
}

TEST(Sampler, WindowsShuffleShardsAndSamples) {
    const auto sampler =
        make_sampler({.size = 1000, .seed = 3, .window = 50, .shards = std::vector<std::int64_t>(20, 50)});
    const auto first = indices_of(epoch_of(*sampler, 0));
    const auto second = indices_of(epoch_of(*sampler, 1));
    EXPECT_NE(first, second);
    std::set<std::int64_t> shards;
    for (std::size_t i = 0; i < 1000; i += 50) {
        shards.insert(first[i] / 50);
    }
    EXPECT_EQ(shards.size(), 20);
    EXPECT_FALSE(std::is_sorted(first.begin(), first.begin() + 50));
}

TEST(Sampler, WeightsAreSharesOfEveryEpoch) {
    const auto sampler = make_sampler({.size = 1000,
                                       .seed = 4,
                                       .groups = {{.weight = 0.7, .first = 0, .size = 10},
                                                  {.weight = 0.2, .first = 10, .size = 900},
                                                  {.weight = 0.1, .first = 910, .size = 90}}});
    for (const std::int64_t epoch : {0, 1, 19}) {
        const auto draws = epoch_of(*sampler, epoch);
        const auto in = [&](std::int64_t first, std::int64_t end) {
            return std::ranges::count_if(
                draws, [&](const SampledIndex& draw) { return draw.index >= first && draw.index < end; });
        };
        EXPECT_EQ(in(0, 10), 700);
        EXPECT_EQ(in(10, 910), 200);
        EXPECT_EQ(in(910, 1000), 100);
        for (const auto& [index, count] : counts_of(draws)) {
            if (index < 10) {
                EXPECT_EQ(count, 70) << "a group's samples are drawn evenly";
            }
        }
    }
}

// Data without shards: a window mixes blocks from the whole data set.
TEST(Sampler, AWindowWithoutShardsDrawsFromManyPlaces) {
    const auto sampler = make_sampler({.size = 100'000, .seed = 3, .window = 1600});
    const auto indices = indices_of(epoch_of(*sampler, 0));
    for (std::size_t begin = 0; begin + 1600 <= indices.size(); begin += 1600) {
        std::set<std::int64_t> thousands;
        for (std::size_t i = begin; i < begin + 1600; ++i) {
            thousands.insert(indices[i] / 1000);
        }
        EXPECT_GE(thousands.size(), 8) << "16 blocks of 100, wherever they lie";
    }
}

std::vector<std::int64_t> substitutes_of(const Sampler& sampler, std::int64_t epoch, std::int64_t position) {
    std::vector<std::int64_t> found;
    while (const auto other = sampler.substitute(epoch, position, std::ssize(found))) {
        found.push_back(*other);
    }
    return found;
}

// Every sample that may replace another is tried: those of the same group, otherwise all.
TEST(Sampler, SubstitutesReachAllSamplesOfTheGroup) {
    for (const SamplerOptions& options : every_kind()) {
        const auto sampler = make_sampler(options);
        for (std::int64_t position = 0; position < sampler->size(); position += 7) {
            SampledIndex draw;
            sampler->draw(3, position, std::span(&draw, 1));
            std::int64_t expected = 100;
            for (const SamplerGroup& group : options.groups) {
                const bool member = group.indices.empty()
                                        ? draw.index >= group.first && draw.index < group.first + group.size
                                        : std::ranges::find(group.indices, draw.index) != group.indices.end();
                expected = member ? group.count() : expected;
            }
            const auto others = substitutes_of(*sampler, 3, position);
            const std::set<std::int64_t> distinct(others.begin(), others.end());
            EXPECT_EQ(std::ssize(distinct), expected) << sampler->name();
            EXPECT_TRUE(distinct.contains(draw.index)) << sampler->name();
            EXPECT_EQ(others, substitutes_of(*make_sampler(options), 3, position));
        }
    }
}

TEST(Sampler, OneAttemptHasDifferentSubstitutesForDifferentPositions) {
    for (const bool shuffle : {true, false}) {
        const auto sampler = make_sampler({.size = 1000, .seed = 5, .shuffle = shuffle});
        for (const std::int64_t attempt : {0, 1, 999}) {
            std::set<std::int64_t> all;
            for (std::int64_t position = 0; position < 1000; ++position) {
                all.insert(sampler->substitute(2, position, attempt).value());
            }
            EXPECT_EQ(all.size(), 1000);
        }
        EXPECT_NE(substitutes_of(*sampler, 2, 0), substitutes_of(*sampler, 3, 0));
    }
}

TEST(Sampler, AWindowIsUsedBeforeTheRestOfTheData) {
    const auto sampler = make_sampler({.size = 100, .seed = 5, .window = 16, .shards = {30, 1, 50, 19}});
    const auto indices = indices_of(epoch_of(*sampler, 1));
    const std::set<std::int64_t> window(indices.begin() + 16, indices.begin() + 32);
    const auto others = substitutes_of(*sampler, 1, 20);
    ASSERT_EQ(others.size(), 16 + 100);
    EXPECT_EQ(std::set(others.begin(), others.begin() + 16), window);
}

// A user's sampler: the samples of its epoch.
TEST(Sampler, SubstitutesOfASamplerWithoutARuleComeFromTheEpoch) {
    struct Even final : Sampler {
        std::int64_t size() const override { return 10; }
        std::int64_t samples() const override { return 20; }
        std::uint64_t seed() const override { return 1; }
        std::string name() const override { return "even"; }
        void draw(std::int64_t /*epoch*/, std::int64_t first, std::span<SampledIndex> out) const override {
            for (SampledIndex& draw : out) {
                draw = {.index = 2 * first++};
            }
        }
    };
    EXPECT_THAT(substitutes_of(Even(), 4, 3), ::testing::UnorderedElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 18));
}

TEST(Sampler, WeightsOfAnySizeKeepTheirRatio) {
    const auto sampler = make_sampler(
        {.size = 100,
         .groups = {{.weight = 1.5e308, .first = 0, .size = 50}, {.weight = 0.5e308, .first = 50, .size = 50}}});
    const auto indices = indices_of(epoch_of(*sampler, 0));
    EXPECT_EQ(std::ranges::count_if(indices, [](std::int64_t index) { return index < 50; }), 75);
}

TEST(Sampler, SharesAreRoundedByTheLargestRemainders) {
    const auto sampler = make_sampler({.size = 10,
                                       .groups = {{.weight = 1, .first = 0, .size = 5},
                                                  {.weight = 1, .first = 5, .size = 3},
                                                  {.weight = 1, .first = 8, .size = 2}}});
    const auto indices = indices_of(epoch_of(*sampler, 0));
    EXPECT_EQ(std::ranges::count_if(indices, [](std::int64_t index) { return index < 5; }), 4);
    EXPECT_EQ(std::ranges::count_if(indices, [](std::int64_t index) { return index >= 8; }), 3);
    EXPECT_EQ(sampler->size(), 10);
}

// Over many epochs all samples of a group are drawn equally often.
TEST(Sampler, WeightedGroupsGoThroughAllTheirSamples) {
    const auto sampler =
        make_sampler({.size = 110, .seed = 8, .groups = {{.first = 0, .size = 10}, {.first = 10, .size = 100}}});
    std::map<std::int64_t, int> counts;
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
        for (const SampledIndex& draw : epoch_of(*sampler, epoch)) {
            ++counts[draw.index];
        }
    }
    for (const auto& [index, count] : counts) {
        EXPECT_EQ(count, index < 10 ? 110 : 11) << index;
    }
}

TEST(Sampler, ShuffleMixesTheGroups) {
    const auto sampler =
        make_sampler({.size = 200, .seed = 8, .groups = {{.first = 0, .size = 100}, {.first = 100, .size = 100}}});
    const auto indices = indices_of(epoch_of(*sampler, 0));
    const auto low = std::count_if(indices.begin(), indices.begin() + 100, [](auto index) { return index < 100; });
    EXPECT_GT(low, 30);
    EXPECT_LT(low, 70);
}

void expect_refused(const SamplerOptions& options, const std::string& part) {
    try {
        make_sampler(options);
        ADD_FAILURE() << "accepted, instead of an error about: " << part;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr(part));
    }
}

TEST(Sampler, RefusesWhatCannotBe) {
    expect_refused({.size = 0}, "at least one sample");
    expect_refused({.size = 10, .epoch_samples = -1}, "[data.epoch_samples, data.shuffle_window] expected at least 0");
    expect_refused({.size = 2, .epoch_samples = 200'000}, "each sample at most 65535 times per epoch");
    expect_refused({.size = 10, .groups = {{.weight = 0, .first = 0, .size = 3}}}, "positive weight");
    expect_refused({.size = 10, .groups = {{.weight = 1, .first = 0, .size = 0}}}, "at least one sample");
    expect_refused({.size = 10, .groups = {{.first = 8, .size = 3}}}, "below 10");
    expect_refused({.size = 10, .groups = {{.indices = {3, -5}}}}, "below 10");
    expect_refused({.size = 10, .groups = {{.first = 0, .size = 5}, {.indices = {7, 4}}}}, "sample 4 twice");
    expect_refused({.size = 40, .groups = {{.weight = 1e6, .first = 0, .size = 20}, {.first = 20, .size = 20}}},
                   "[data.epoch_samples] expected at least one sample an epoch from each data set or class, got 0 of "
                   "40 from number 2 "
                   "of 2");
    expect_refused({.size = 10, .window = 5, .shards = {3, 3}}, "shards of 10 samples in total, got 6");
    expect_refused({.size = 10, .window = 5, .groups = {{.first = 0, .size = 10}}},
                   "[data.shuffle_window] expected 0, because");
}

}  // namespace
}  // namespace stoker::sampler_test
