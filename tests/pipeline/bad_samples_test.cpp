// Bad samples within a budget are replaced by others and listed, the same for any number of workers and ranks; beyond
// the budget the run ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/pixel_source.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::PixelDataset;
using testing::random_ops;
using testing::see;
using testing::Seen;

std::shared_ptr<PixelDataset> source_with_bad(std::int64_t size, const std::set<std::int64_t>& bad) {
    auto source = PixelDataset::with_fields(size);
    for (const std::int64_t index : bad) {
        source->failures[index] = [] {
            throw DataError({.path = "", .offset = 7}, {.where = "x", .expected = "good bytes", .got = "bad ones"});
        };
    }
    return source;
}

struct Epochs {
    std::vector<Seen> batches;
    std::vector<std::pair<std::int64_t, std::int64_t>> bad;  // index, replaced_by or -1
};

Epochs run_epochs(Loader& loader, int epochs) {
    Epochs run;
    while (epochs > 0) {
        const auto batch = loader.next();
        if (batch == nullptr) {
            --epochs;
            continue;
        }
        run.batches.push_back(see(*batch));
        for (const BadSample& bad : batch->bad_samples()) {
            run.bad.emplace_back(bad.index, bad.replaced_by.value_or(-1));
        }
    }
    return run;
}

TEST(BadSamples, AreReplacedTheSameWayForAnyNumberOfWorkers) {
    Epochs alone;
    for (const int workers : {0, 1, 3, 8}) {
        Loader loader(source_with_bad(20, {4, 5, 19}), random_ops(),
                      {.batch_size = 8, .workers = workers, .seed = 3, .bad_samples = 3});
        const Epochs run = run_epochs(loader, 2);
        if (workers == 0) {
            alone = run;
        }
        EXPECT_EQ(testing::difference(run.batches, alone.batches), "") << workers << " workers";
        EXPECT_EQ(run.bad, alone.bad);
    }
    ASSERT_EQ(alone.bad.size(), 6) << "each once in an epoch";
    for (const auto& [index, by] : alone.bad) {
        EXPECT_THAT(by, ::testing::AllOf(::testing::Ge(0), ::testing::Ne(4), ::testing::Ne(5), ::testing::Ne(19)));
    }
}

// Samples `first` to `last` are bad, as after a disk error in the middle of a folder.
std::set<std::int64_t> neighbours(std::int64_t first, std::int64_t last) {
    std::set<std::int64_t> bad;
    for (std::int64_t index = first; index <= last; ++index) {
        bad.insert(index);
    }
    return bad;
}

// Which sample is at each place of the epochs, after a restart at batch `restart`, with several ranks.
std::vector<std::int64_t> used_indices(std::int64_t restart, int workers, int ranks, bool shuffle) {
    std::vector<std::vector<std::int64_t>> batches;
    for (int rank = 0; rank < ranks; ++rank) {
        const LoaderOptions options{.batch_size = 8,
                                    .workers = workers,
                                    .seed = 3,
                                    .shuffle = shuffle,
                                    .bad_samples = 100,
                                    .rank = rank,
                                    .world_size = ranks};
        Loader loader(source_with_bad(90, neighbours(20, 59)), random_ops(), options);
        LoaderState state = loader.state();
        state.epoch = restart / 12;
        state.batch = restart % 12;
        loader.restore(state);
        for (std::size_t number = 0; number < 24 - static_cast<std::size_t>(restart); ++number) {
            auto batch = loader.next();
            batch = batch == nullptr ? loader.next() : batch;  // null: the end of an epoch
            const Seen seen = see(*batch);
            batches.resize(std::max(batches.size(), number + 1));
            batches[number].insert(batches[number].end(), seen.indices.begin(), seen.indices.end());
        }
    }
    std::vector<std::int64_t> all;
    for (const auto& batch : batches) {
        all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
}

TEST(BadSamples, SubstitutesDependOnThePositionAlone) {
    for (const bool shuffle : {true, false}) {
        const auto whole = used_indices(0, 1, 1, shuffle);
        ASSERT_EQ(whole.size(), 180);
        for (const int workers : {1, 2, 7}) {
            for (const int ranks : {1, 2, 4}) {
                EXPECT_EQ(used_indices(0, workers, ranks, shuffle), whole) << workers << " workers, " << ranks;
            }
        }
        for (const std::int64_t restart : {1, 5, 11, 12, 13, 23}) {
            const auto rest = used_indices(restart, 2, 2, shuffle);
            EXPECT_TRUE(std::ranges::equal(rest, std::span(whole).last(rest.size()))) << "from batch " << restart;
        }
    }
}

// Counts how many substitutes the loader asks for.
class CountingSampler final : public Sampler {
  public:
    CountingSampler(std::int64_t size, bool shuffle) : sampler_(make_sampler({.size = size, .shuffle = shuffle})) {}
    std::int64_t size() const override { return sampler_->size(); }
    std::int64_t samples() const override { return sampler_->samples(); }
    std::uint64_t seed() const override { return sampler_->seed(); }
    std::string name() const override { return sampler_->name(); }
    void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const override {
        sampler_->draw(epoch, first, out);
    }
    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                           std::int64_t attempt) const override {
        ++asked;
        return sampler_->substitute(epoch, position, attempt);
    }

    mutable std::atomic<std::int64_t> asked{0};

  private:
    std::shared_ptr<const Sampler> sampler_;
};

// Four of ten samples are bad neighbours: the work and the list grow with their number, and no sample replaces many.
TEST(BadSamples, ManyNeighboursAreReplacedInLinearTimeByManyOthers) {
    for (const std::int64_t size : {1000, 4000}) {
        for (const bool shuffle : {true, false}) {
            const std::int64_t bad = size * 4 / 10;
            const auto source = source_with_bad(size, neighbours(size / 5, size / 5 + bad - 1));
            const auto sampler = std::make_shared<CountingSampler>(size, shuffle);
            Loader loader(source, Transform(),
                          {.batch_size = 50, .workers = 0, .sampler = sampler, .bad_samples = size});
            const Epochs run = run_epochs(loader, 1);
            EXPECT_EQ(std::ssize(run.bad), bad) << "each is listed once";
            EXPECT_EQ(source->reads, 1 + size + bad);
            EXPECT_LT(sampler->asked, 3 * bad) << "1 / (1 - 0.4) tries for each";
            std::map<std::int64_t, int> uses;
            for (const auto& [index, by] : run.bad) {
                ++uses[by];
            }
            EXPECT_LE(std::ranges::max_element(uses, {}, [](const auto& use) { return use.second; })->second, 5)
                << "the mean is 400 / 600";
            EXPECT_GT(std::ssize(uses), size / 4) << "different ones";
        }
    }
}

TEST(BadSamples, TheBatchHoldsTheReplacement) {
    const auto good = PixelDataset::with_fields(20);
    Loader loader(source_with_bad(20, {5}), Transform(),
                  {.batch_size = 20, .workers = 2, .shuffle = false, .bad_samples = 1});
    Loader clean(good, Transform(), {.batch_size = 20, .workers = 2, .shuffle = false});
    const auto batch = loader.next();
    const Seen got = see(*batch);
    const Seen all = see(*clean.next());
    const std::int64_t other = got.indices[5];
    const auto by = static_cast<std::size_t>(other);
    EXPECT_NE(other, 5);
    EXPECT_EQ(got.keys[5], all.keys[by]);
    EXPECT_EQ(got.labels[5], all.labels[by]);
    const std::size_t image = all.image.size() / 20;
    EXPECT_TRUE(std::equal(got.image.begin() + static_cast<std::ptrdiff_t>(5 * image),
                           got.image.begin() + static_cast<std::ptrdiff_t>(6 * image),
                           all.image.begin() + static_cast<std::ptrdiff_t>(by * image)));
    EXPECT_EQ(batch->sampled()[5].index, 5);
    ASSERT_EQ(batch->bad_samples().size(), 1);
    const BadSample& bad = batch->bad_samples().front();
    EXPECT_EQ(bad.item, 5);
    EXPECT_EQ(bad.index, 5);
    EXPECT_EQ(bad.key, "pixels/00005");
    EXPECT_EQ(bad.offset, 7);
    EXPECT_EQ(bad.reason, "expected good bytes, got bad ones");
    EXPECT_EQ(bad.replaced_by, other);
}

// Two of an epoch's samples fit the budget, the third does not: always in the same batch.
TEST(BadSamples, PastTheBudgetTheRunStopsWithAList) {
    for (const int workers : {0, 1, 4}) {
        Loader loader(source_with_bad(40, {3, 13, 23, 33}), random_ops(),
                      {.batch_size = 10, .workers = workers, .shuffle = false, .bad_samples = 2});
        EXPECT_NO_THROW(loader.next());
        EXPECT_NO_THROW(loader.next());
        try {
            loader.next();
            ADD_FAILURE() << "the third bad sample passed";
        } catch (const DataError& error) {
            EXPECT_THAT(error.what(), HasSubstr("at most 2 bad samples in an epoch"));
            EXPECT_THAT(error.what(), HasSubstr("pixels/00023"));
        }
    }
}

// Labels outside the model's classes, or missing: a loss function would only report an index out of bounds.
TEST(BadSamples, ALabelThatNoClassHasIsOne) {
    const auto source = PixelDataset::with_fields(20);
    std::int64_t largest = 0;
    for (std::int64_t i = 0; i < source->size(); ++i) {
        Sample sample;
        source->read(i, sample);
        largest = std::max(largest, sample.label);
    }
    ASSERT_GE(largest, 2);
    Loader all(source, Transform(), {.batch_size = 8, .workers = 2, .classes = largest + 1});
    EXPECT_TRUE(run_epochs(all, 1).bad.empty());
    Loader fewer(source, Transform(), {.batch_size = 8, .workers = 2, .bad_samples = 20, .classes = largest});
    const Epochs run = run_epochs(fewer, 1);
    EXPECT_FALSE(run.bad.empty());
    for (const auto& [index, replaced_by] : run.bad) {
        Sample sample;
        source->read(index, sample);
        EXPECT_EQ(sample.label, largest);
    }
    Loader none(source, Transform(), {.batch_size = 8, .workers = 2, .classes = largest});
    try {
        run_epochs(none, 1);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("a class from 0 to {}, got {}", largest - 1, largest)));
        EXPECT_THAT(error.what(), HasSubstr("model.classes"));
    }
}

TEST(BadSamples, TheBudgetIsForEachEpoch) {
    Loader loader(source_with_bad(20, {3, 13}), random_ops(), {.batch_size = 10, .workers = 2, .bad_samples = 2});
    EXPECT_EQ(run_epochs(loader, 5).bad.size(), 10);
}

TEST(BadSamples, ADataSetOfBadSamplesOnlyEndsWithAMessage) {
    std::set<std::int64_t> all;
    for (std::int64_t i = 1; i < 10; ++i) {
        all.insert(i);
    }
    // Sample 0 is read for the shape and is then also bad.
    const auto source = source_with_bad(10, all);
    Loader loader(source, random_ops(), {.batch_size = 5, .workers = 0, .shuffle = false, .bad_samples = 1000});
    source->failures[0] = source->failures[1];
    try {
        loader.next();
        ADD_FAILURE() << "no sample is good";
    } catch (const TooManyBadSamples& error) {
        EXPECT_THAT(error.what(), HasSubstr("pixels/00004: expected good bytes, got bad ones"));
        EXPECT_EQ(error.samples().size(), 5) << "one for each place";
        EXPECT_EQ(error.samples().front().replaced_by, std::nullopt);
    }
    try {
        const Loader other(source, random_ops(), {.batch_size = 5, .bad_samples = 1000});
        ADD_FAILURE() << "no sample gives the shape";
    } catch (const TooManyBadSamples& error) {
        EXPECT_EQ(error.samples().size(), 10) << "each with its reason";
        EXPECT_EQ(error.samples().back().key, "pixels/00009");
    }
}

// A fault of all samples, such as a wrong codec, is said after some hundreds of reads, and not after all.
TEST(BadSamples, AFaultOfAllSamplesIsFoundEarly) {
    constexpr std::int64_t kSamples = 100'000;
    std::set<std::int64_t> all;
    for (std::int64_t i = 1; i < kSamples; ++i) {
        all.insert(i);
    }
    const auto source = source_with_bad(kSamples, all);
    Loader loader(source, random_ops(), {.batch_size = 4, .workers = 0, .prefetch = 1, .bad_samples = 120});
    source->reads = 0;
    EXPECT_THROW(loader.next(), TooManyBadSamples);
    EXPECT_LE(source->reads, 4 * 121);
    source->reads = 0;
    source->failures[0] = source->failures[1];
    try {
        const Loader other(source, random_ops(), {.batch_size = 4, .bad_samples = 1});
        ADD_FAILURE() << "no sample gives the shape";
    } catch (const TooManyBadSamples& error) {
        EXPECT_THAT(error.what(), HasSubstr("none of the first 101 samples can be read"));
        EXPECT_EQ(source->reads, 101);
    }
}

TEST(BadSamples, MayHaveNoKey) {
    const auto source = source_with_bad(20, {0, 5});
    source->nameless = {0, 5};
    Loader loader(source, Transform(), {.batch_size = 20, .workers = 2, .shuffle = false, .bad_samples = 2});
    const auto batch = loader.next();
    ASSERT_EQ(batch->bad_samples().size(), 2);
    EXPECT_EQ(batch->bad_samples()[1].key, "5");
    EXPECT_EQ(batch->bad_samples()[1].reason, "expected good bytes, got bad ones");
}

// All bad samples of the batch are listed, with their replacements.
TEST(BadSamples, TheListOfTheStopIsWhole) {
    Loader loader(source_with_bad(20, {1, 5}), random_ops(),
                  {.batch_size = 10, .workers = 3, .shuffle = false, .bad_samples = 1});
    try {
        loader.next();
        ADD_FAILURE() << "two bad samples passed";
    } catch (const TooManyBadSamples& error) {
        ASSERT_EQ(error.samples().size(), 2);
        EXPECT_EQ(error.samples()[0].index, 1);
        EXPECT_TRUE(error.samples()[0].replaced_by.has_value());
        EXPECT_EQ(error.samples()[1].index, 5);
    }
    Loader strict(source_with_bad(20, {5}), random_ops(), {.batch_size = 10, .workers = 1, .shuffle = false});
    try {
        strict.next();
        ADD_FAILURE() << "a bad sample passed";
    } catch (const TooManyBadSamples& error) {
        ASSERT_EQ(error.samples().size(), 1);
        EXPECT_EQ(error.samples()[0].key, "pixels/00005");
        EXPECT_THAT(error.what(), HasSubstr("pixels/00005 (sample 5) @ byte 7] expected good bytes, got bad ones"));
    }
}

TEST(BadSamples, AreReadOnce) {
    std::set<std::int64_t> bad;
    for (std::int64_t i = 100; i < 300; ++i) {
        bad.insert(i);
    }
    const auto source = source_with_bad(1000, bad);
    Loader loader(source, random_ops(), {.batch_size = 50, .workers = 0, .bad_samples = 500});
    run_epochs(loader, 1);
    EXPECT_EQ(source->reads, 1 + 1000 + 200) << "the first, each good one at its place, each bad one, its replacement";
}

// Many consecutive bad samples are read once each; all samples may be bad.
TEST(BadSamples, MayLeaveTheirPlacesEmpty) {
    const auto source = PixelDataset::with_fields(40);
    Loader loader(source, random_ops(),
                  {.batch_size = 8, .workers = 0, .shuffle = false, .bad_samples = 40, .replace = false});
    for (std::int64_t index = 0; index < 40; ++index) {
        source->failures[index] = [] {
            throw DataError({}, {.where = "x", .expected = "good bytes", .got = "bad ones"});
        };
    }
    for (int batches = 0; batches < 5; ++batches) {
        const auto batch = loader.next();
        ASSERT_EQ(batch->bad_samples().size(), 8) << "one for each place";
        const Seen seen = see(*batch);
        EXPECT_THAT(seen.labels, ::testing::Each(-1));
        EXPECT_THAT(seen.image, ::testing::Each(0.0F));
    }
    EXPECT_EQ(source->reads, 1 + 40);
}

// A replacement uses the random numbers of the original sample, which no other item has.
TEST(BadSamples, AReplacementIsAugmentedInItsOwnWay) {
    Loader loader(source_with_bad(400, {7}), random_ops(), {.batch_size = 400, .workers = 1, .bad_samples = 1});
    const Seen seen = see(*loader.next());
    const std::size_t image = seen.image.size() / 400;
    std::map<std::int64_t, std::vector<std::vector<float>>> images;
    for (std::size_t i = 0; i < 400; ++i) {
        const auto begin = seen.image.begin() + static_cast<std::ptrdiff_t>(i * image);
        images[seen.indices[i]].emplace_back(begin, begin + static_cast<std::ptrdiff_t>(image));
    }
    ASSERT_EQ(images.size(), 399);
    for (const auto& [index, versions] : images) {
        if (versions.size() == 2) {
            EXPECT_NE(versions[0], versions[1]);
        }
    }
}

TEST(BadSamples, AreReplacedWithinTheirGroup) {
    LoaderOptions options{.batch_size = 20, .workers = 2, .bad_samples = 4};
    options.sampler = make_sampler({.size = 20, .groups = {{.indices = {3, 4, 15}}, {.indices = {5, 6}}}});
    Loader loader(source_with_bad(20, {4}), random_ops(), options);
    for (const auto& [index, by] : run_epochs(loader, 2).bad) {
        EXPECT_EQ(index, 4);
        EXPECT_THAT(by, ::testing::AnyOf(3, 15)) << "of the same group";
    }
}

TEST(BadSamples, AnEpochThatBeginsWithAnErrorCountsAfresh) {
    const auto source = source_with_bad(20, {6, 7});
    Loader loader(source, random_ops(), {.batch_size = 5, .workers = 0, .shuffle = false, .bad_samples = 2});
    EXPECT_EQ(run_epochs(loader, 1).bad.size(), 2);
    source->failures[0] = [] { throw IoError({.where = "disk", .expected = "bytes", .got = "no answer"}); };
    EXPECT_THROW(loader.next(), IoError);
    EXPECT_EQ(loader.state().bad_samples, 0);
    EXPECT_NO_THROW(loader.next());
}

TEST(BadSamples, ImagesOfAnotherSizeAreNone) {
    const auto source = PixelDataset::with_fields(20);
    source->taller.insert(5);
    Loader loader(source, Transform(), {.batch_size = 20, .workers = 1, .shuffle = false, .bad_samples = 10});
    try {
        loader.next();
        ADD_FAILURE() << "dropped silently";
    } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("add an op that gives all images the same size"));
    }
}

TEST(BadSamples, ABadFirstSampleDoesNotHideTheShape) {
    Loader loader(source_with_bad(10, {0, 1}), random_ops(),
                  {.batch_size = 10, .workers = 1, .shuffle = false, .bad_samples = 2});
    const std::vector<std::int64_t> indices = see(*loader.next()).indices;
    EXPECT_THAT(std::vector(indices.begin() + 2, indices.end()), ::testing::ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_THAT(std::vector(indices.begin(), indices.begin() + 2), ::testing::Each(::testing::Ge(2)));
    const auto odd = PixelDataset::with_fields(10);
    odd->failures[0] = [] { throw std::runtime_error("my reader gave up"); };
    EXPECT_NO_THROW(Loader(odd, random_ops(), {.batch_size = 10, .bad_samples = 1}));
}

TEST(BadSamples, ErrorsOfTheSystemAreNotTheSamplesFault) {
    const auto source = PixelDataset::with_fields(10);
    source->failures[4] = [] { throw IoError({.where = "disk", .expected = "bytes", .got = "no answer"}); };
    Loader loader(source, random_ops(), {.batch_size = 10, .workers = 1, .bad_samples = 10});
    EXPECT_THROW(loader.next(), IoError);
}

TEST(BadSamples, TheCountIsPartOfTheState) {
    const LoaderOptions options{.batch_size = 5, .workers = 2, .shuffle = false, .bad_samples = 2};
    Loader first(source_with_bad(20, {1, 2, 12}), random_ops(), options);
    first.next();
    EXPECT_EQ(first.state().bad_samples, 2);
    Loader second(source_with_bad(20, {1, 2, 12}), random_ops(), options);
    second.restore(loader_state_from_json(to_json(first.state())));
    EXPECT_NO_THROW(second.next());
    EXPECT_THROW(second.next(), DataError) << "sample 12 is the third bad one of the epoch";
    Loader third(source_with_bad(20, {1, 2, 12}), random_ops(), options);
    LoaderState state = first.state();
    state.bad_samples = -9;
    EXPECT_THROW(third.restore(state), InvalidArgument);
    state.bad_samples = 0;
    third.restore(state);
    third.next();
    EXPECT_NO_THROW(third.next());
}

}  // namespace
}  // namespace stoker
