// Batches by length have every sample once, and their padding is limited; the same for any number of ranks.
#include "stoker/pipeline/sampling/bucket_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/pipeline/sampling/batch_sampler.h"

namespace stoker {
namespace {

std::vector<std::int64_t> random_lengths(std::size_t count, std::uint32_t most, std::uint64_t seed) {
    Rng rng({.seed = seed});
    std::vector<std::int64_t> lengths(count);
    for (std::int64_t& length : lengths) {
        length = static_cast<std::int64_t>(rng.next() % most);
    }
    return lengths;
}

std::vector<std::int64_t> drawn(const Sampler& sampler, std::int64_t epoch, std::int64_t first, std::int64_t count) {
    std::vector<SampledIndex> draws(static_cast<std::size_t>(count));
    sampler.draw(epoch, first, draws);
    std::vector<std::int64_t> indices;
    std::ranges::transform(draws, std::back_inserter(indices), &SampledIndex::index);
    return indices;
}

TEST(BucketLength, IsRoundedUpByAtMostAnEighth) {
    EXPECT_EQ(bucket_length(0), 8);
    EXPECT_EQ(bucket_length(8), 8);
    EXPECT_EQ(bucket_length(9), 9);
    EXPECT_EQ(bucket_length(100), 104);
    EXPECT_EQ(bucket_length(1024), 1024);
    EXPECT_EQ(bucket_length(1025), 1152);
    for (std::int64_t length = 8; length < 5000; ++length) {
        EXPECT_GE(bucket_length(length), length);
        EXPECT_LE(8 * bucket_length(length), 9 * length);
    }
}

TEST(BucketSampler, EpochsHaveEverySampleOnce) {
    for (const bool shuffle : {false, true}) {
        const std::vector<std::int64_t> lengths = random_lengths(5000, 700, 3);
        const BucketSampler sampler(lengths, {.batch_tokens = 4096, .seed = 5, .shuffle = shuffle});
        ASSERT_EQ(sampler.size(), 5000);
        for (const std::int64_t epoch : {0, 1}) {
            std::vector<std::int64_t> all = drawn(sampler, epoch, 0, sampler.size());
            std::ranges::sort(all);
            for (std::size_t i = 0; i < all.size(); ++i) {
                ASSERT_EQ(all[i], static_cast<std::int64_t>(i));
            }
        }
        EXPECT_EQ(drawn(sampler, 0, 0, 5000) == drawn(sampler, 1, 0, 5000), !shuffle);
    }
}

TEST(BucketSampler, BatchesFitTheirTokensAndHaveLittlePadding) {
    const std::vector<std::int64_t> lengths = random_lengths(20000, 500, 4);
    const BucketSampler sampler(lengths, {.batch_tokens = 8192, .seed = 1});
    std::int64_t padded = 0;
    std::int64_t used = 0;
    std::int64_t small = 0;
    for (std::int64_t batch = 0; batch + 1 < std::ssize(sampler.begins()); ++batch) {
        const std::int64_t first = sampler.begins()[static_cast<std::size_t>(batch)];
        const std::int64_t count = sampler.begins()[static_cast<std::size_t>(batch) + 1] - first;
        EXPECT_LE(count * sampler.length(batch), 8192);
        small += count * sampler.length(batch) < 6000;
        padded += count * sampler.length(batch);
        for (const std::int64_t index : drawn(sampler, 3, first, count)) {
            EXPECT_LE(lengths[static_cast<std::size_t>(index)], sampler.length(batch));
            used += lengths[static_cast<std::size_t>(index)];
        }
    }
    EXPECT_LT(static_cast<double>(padded - used), 0.12 * static_cast<double>(padded));
    EXPECT_LT(small, 60);  // the last of each bucket
    EXPECT_LE(sampler.most_entries(1), 8192);
}

TEST(BucketSampler, LongAndBadSamples) {
    const std::vector<std::int64_t> lengths = {-1, 5, 300, 40, 2, 0};
    const BucketSampler sampler(lengths, {.batch_tokens = 64, .shuffle = false});
    EXPECT_EQ(sampler.longest(), bucket_length(300));
    EXPECT_EQ(sampler.most_samples(), 4);
    EXPECT_EQ(sampler.most_entries(1), bucket_length(300));
    const BucketSampler cut(lengths, {.batch_tokens = 64, .most = 32, .shuffle = false});
    EXPECT_EQ(cut.longest(), 32);
}

TEST(BucketSampler, DropLastLeavesOutWhatIsNotFull) {
    const std::vector<std::int64_t> lengths = random_lengths(1000, 200, 8);
    const BucketSampler sampler(lengths, {.batch_size = 32, .seed = 2, .drop_last = true});
    std::set<std::int64_t> sizes;
    for (std::size_t batch = 0; batch + 1 < sampler.begins().size(); ++batch) {
        sizes.insert(sampler.begins()[batch + 1] - sampler.begins()[batch]);
    }
    EXPECT_EQ(sizes, std::set<std::int64_t>{32});
    EXPECT_THROW(BucketSampler(lengths, {.batch_size = 2000, .drop_last = true}), InvalidArgument);
}

TEST(BucketSampler, RanksShareEachBatch) {
    const std::vector<std::int64_t> lengths = random_lengths(777, 300, 6);
    const BucketSampler sampler(lengths, {.batch_tokens = 2000, .seed = 2});
    for (const int ranks : {1, 2, 3}) {
        for (std::int64_t batch = 0; batch + 1 < std::ssize(sampler.begins()); ++batch) {
            std::int64_t next = sampler.begins()[static_cast<std::size_t>(batch)];
            for (int rank = 0; rank < ranks; ++rank) {
                const BatchSampler batches({.size = sampler.size(),
                                            .batch_size = sampler.most_samples(),
                                            .rank = rank,
                                            .world_size = ranks,
                                            .begins = sampler.begins()});
                const BatchSlice slice = batches.slice(batch);
                EXPECT_EQ(slice.first, next);
                EXPECT_LE(slice.count, batches.max_slice());
                EXPECT_LE(slice.count * sampler.length(batch), sampler.most_entries(ranks));
                next += slice.count;
            }
            EXPECT_EQ(next, sampler.begins()[static_cast<std::size_t>(batch) + 1]);
        }
    }
}

TEST(BucketSampler, SubstitutesAreOfTheSameBucketThenAnyOther) {
    const std::vector<std::int64_t> lengths = random_lengths(400, 300, 7);
    const BucketSampler sampler(lengths, {.batch_tokens = 2000, .seed = 2});
    for (std::int64_t batch = 0; batch + 1 < std::ssize(sampler.begins()); ++batch) {
        const std::int64_t first = sampler.begins()[static_cast<std::size_t>(batch)];
        std::int64_t longer = 0;
        std::set<std::int64_t> tried;
        std::int64_t attempt = 0;
        for (; const auto other = sampler.substitute(1, first, attempt); ++attempt) {
            tried.insert(*other);
            const bool fits = lengths[static_cast<std::size_t>(*other)] <= sampler.length(batch);
            EXPECT_TRUE(fits || attempt > 1);
            longer += !fits;
        }
        EXPECT_EQ(tried.size(), 400U);
        EXPECT_GT(attempt, 400);
        EXPECT_TRUE(longer > 0 || sampler.length(batch) == sampler.longest());
    }
}

TEST(BucketSampler, ABadSampleAloneHasSubstitutes) {
    std::vector<std::int64_t> lengths = random_lengths(60, 40, 7);
    for (std::int64_t& length : lengths) {
        length += 50;
    }
    lengths[7] = -1;
    const BucketSampler sampler(lengths, {.batch_tokens = 500, .shuffle = false});
    ASSERT_EQ(drawn(sampler, 0, 0, 1), std::vector<std::int64_t>{7});
    std::set<std::int64_t> tried;
    for (std::int64_t attempt = 0; const auto other = sampler.substitute(0, 0, attempt); ++attempt) {
        tried.insert(*other);
    }
    EXPECT_EQ(tried.size(), 60U);
}

TEST(BucketSampler, ExactLengthsAreNeitherRoundedNorJoined) {
    std::vector<std::int64_t> lengths(10, 2);
    lengths.insert(lengths.end(), 7, 3);
    lengths.insert(lengths.end(), 3, 0);
    const BucketSampler sampler(lengths, {.batch_size = 4, .exact = true, .shuffle = false});
    EXPECT_EQ(sampler.begins(), (std::vector<std::int64_t>{0, 3, 7, 11, 13, 17, 20}));
    for (std::int64_t batch = 0; batch < 6; ++batch) {
        EXPECT_EQ(sampler.length(batch), batch == 0 ? 0 : batch < 4 ? 2 : 3);
    }
    EXPECT_EQ(sampler.most_samples(), 4);
}

TEST(BucketSampler, RestsJoinTheNextLength) {
    std::vector<std::int64_t> lengths(10, 16);  // of 100 / 16 = 6, a rest of 4
    lengths.insert(lengths.end(), 7, 18);       // with these 11 of 5, a rest of 1
    lengths.insert(lengths.end(), 3, 30);       // much longer: another batch
    const BucketSampler sampler(lengths, {.batch_tokens = 100, .shuffle = false});
    EXPECT_EQ(sampler.begins(), (std::vector<std::int64_t>{0, 6, 11, 16, 17, 20}));
    EXPECT_EQ(sampler.length(0), 16);
    EXPECT_EQ(sampler.length(1), 18);
    EXPECT_EQ(sampler.length(3), 18);
    EXPECT_EQ(sampler.length(4), 30);
}

}  // namespace
}  // namespace stoker
