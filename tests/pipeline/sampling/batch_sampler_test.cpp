// The slices of all ranks together are exactly the global batch, for any number of ranks.
#include "stoker/pipeline/sampling/batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {
namespace {

using Indices = std::vector<std::int64_t>;

Indices rank_batch(const BatchSamplerOptions& options, std::int64_t epoch, std::int64_t batch) {
    const BatchSampler batch_sampler(options);
    const auto sampler = make_sampler({.size = options.size, .seed = 3});
    const BatchSlice slice = batch_sampler.slice(batch);
    EXPECT_LE(slice.count, batch_sampler.max_slice());
    std::vector<SampledIndex> draws(static_cast<std::size_t>(slice.count));
    sampler->draw(epoch, slice.first, draws);
    Indices indices;
    std::ranges::transform(draws, std::back_inserter(indices), &SampledIndex::index);
    return indices;
}

Indices global_batch(BatchSamplerOptions options, int world_size, std::int64_t epoch, std::int64_t batch) {
    options.world_size = world_size;
    Indices indices;
    std::int64_t least = options.batch_size;
    std::int64_t most = 0;
    for (options.rank = 0; options.rank < world_size; ++options.rank) {
        const Indices part = rank_batch(options, epoch, batch);
        least = std::min(least, static_cast<std::int64_t>(part.size()));
        most = std::max(most, static_cast<std::int64_t>(part.size()));
        indices.insert(indices.end(), part.begin(), part.end());
    }
    EXPECT_LE(most - least, 1) << "ranks have uneven work";
    return indices;
}

TEST(BatchSampler, RanksTogetherMakeTheSameBatchesForEveryWorldSize) {
    for (const std::int64_t size : {1, 2, 7, 23, 24, 25, 100, 241}) {
        for (const std::int64_t batch_size : {1, 2, 12, 24, 48, 240}) {
            const BatchSamplerOptions options{.size = size, .batch_size = batch_size};
            const std::int64_t batches = BatchSampler(options).batches();
            for (const std::int64_t epoch : {0, 1, 9}) {
                Indices all;
                for (std::int64_t batch = 0; batch < batches; ++batch) {
                    const Indices alone = global_batch(options, 1, epoch, batch);
                    ASSERT_FALSE(alone.empty());
                    for (const int world_size : {2, 3, 4, 6, 8, 12, 24, 48}) {
                        if (batch_size % world_size == 0) {
                            ASSERT_EQ(global_batch(options, world_size, epoch, batch), alone)
                                << size << " samples, batch_size " << batch_size << ", " << world_size << " ranks";
                        }
                    }
                    all.insert(all.end(), alone.begin(), alone.end());
                }
                std::sort(all.begin(), all.end());
                Indices every(static_cast<std::size_t>(size));
                std::iota(every.begin(), every.end(), 0);
                ASSERT_EQ(all, every) << "each sample once an epoch";
            }
        }
    }
}

TEST(BatchSampler, DropLastLeavesOutOnlyTheBatchThatIsNotFull) {
    for (const std::int64_t size : {10, 11, 19, 20}) {
        const BatchSampler kept({.size = size, .batch_size = 5});
        const BatchSampler dropped({.size = size, .batch_size = 5, .drop_last = true});
        EXPECT_EQ(kept.batches(), (size + 4) / 5);
        EXPECT_EQ(dropped.batches(), size / 5);
        for (std::int64_t batch = 0; batch < dropped.batches(); ++batch) {
            EXPECT_EQ(dropped.slice(batch).count, 5);
        }
    }
}

TEST(BatchSampler, ABatchLargerThanTheDataIsOneBatch) {
    const BatchSampler batch_sampler({.size = 3, .batch_size = std::int64_t{1} << 40});
    EXPECT_EQ(batch_sampler.batches(), 1);
    EXPECT_EQ(batch_sampler.slice(0).count, 3);
    EXPECT_EQ(batch_sampler.max_slice(), 3) << "no slot needs more room than there are samples";
}

void expect_refused(const BatchSamplerOptions& options, const std::string& part) {
    try {
        const BatchSampler batch_sampler(options);
        ADD_FAILURE() << "accepted, instead of an error about: " << part;
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
}

TEST(BatchSampler, RefusesWhatCannotBe) {
    expect_refused({.size = 0, .batch_size = 1}, "at least one sample");
    expect_refused({.size = 5, .batch_size = 0}, "[data.batch_size] expected at least 1");
    expect_refused({.size = 5, .batch_size = -4}, "[data.batch_size] expected at least 1");
    expect_refused({.size = 5, .batch_size = 4, .world_size = 0}, "[ranks] expected at least 1");
    expect_refused({.size = 5, .batch_size = 4, .rank = 2, .world_size = 2}, "a rank from 0 to 1");
    expect_refused({.size = 5, .batch_size = 4, .rank = -1, .world_size = 2}, "a rank from 0 to 1");
    expect_refused({.size = 5, .batch_size = 4, .world_size = 3},
                   "[data.batch_size] expected a multiple of the 3 ranks, got 4");
    expect_refused({.size = 5, .batch_size = 6, .drop_last = true},
                   "[data.drop_last] expected at least one full batch of 6 samples, got 5 samples an epoch; lower "
                   "data.batch_size");
}

TEST(BatchSampler, NeighboursSkipRanksWithoutSamples) {
    // Batches of 4, then one of 2: ranks 1 and 3 have its samples.
    const auto of_rank = [](int rank) {
        return BatchSampler({.size = 6, .batch_size = 4, .rank = rank, .world_size = 4});
    };
    for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(of_rank(rank).neighbours(0).before, (rank + 3) % 4);
        EXPECT_EQ(of_rank(rank).neighbours(0).after, (rank + 1) % 4);
    }
    EXPECT_EQ(of_rank(1).neighbours(1).before, 3);
    EXPECT_EQ(of_rank(1).neighbours(1).after, 3);
    EXPECT_EQ(of_rank(3).neighbours(1).before, 1);
    EXPECT_EQ(of_rank(3).neighbours(1).after, 1);
    const BatchSampler one({.size = 5, .batch_size = 4});
    EXPECT_EQ(one.neighbours(1).before, 0);
    EXPECT_EQ(one.neighbours(1).after, 0);
}

}  // namespace
}  // namespace stoker
