// A loader with unreadable samples, impossible options, or without memory: next() throws, and the loader continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "pipeline/pixel_source.h"
#include "stoker/base/memory_limit.h"
#include "stoker/pipeline/cache/cache_capacity.h"
#include "support/memory_room.h"

namespace stoker::loader_error_test {
namespace {

using testing::CountingAllocator;
using ::testing::HasSubstr;
using testing::PixelDataset;
using testing::random_ops;
using testing::see;

// Ten samples in order, in batches of 4; sample 5 fails with the given error.
template <typename Check>
void with_failure(const std::function<void()>& failure, Check check) {
    for (const int workers : {0, 1, 3}) {
        const auto dataset = std::make_shared<PixelDataset>(10);
        dataset->failures[5] = failure;
        Loader loader(dataset, random_ops(), {.batch_size = 4, .workers = workers, .shuffle = false});
        for (int epoch = 0; epoch < 2; ++epoch) {
            EXPECT_EQ(see(*loader.next()).indices, (std::vector<std::int64_t>{0, 1, 2, 3}));
            check(loader);
            EXPECT_EQ(see(*loader.next()).indices, (std::vector<std::int64_t>{8, 9}))
                << "continues after the bad batch";
            EXPECT_EQ(loader.next(), nullptr);
        }
    }
}

TEST(LoaderErrors, ADataErrorHasItsPlace) {
    const auto failure = [] {
        throw DataError({.path = "", .offset = 77}, {.where = "x", .expected = "good bytes", .got = "bad ones"});
    };
    with_failure(failure, [](Loader& loader) {
        try {
            loader.next();
            ADD_FAILURE() << "no error";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().path, "made-up");
            EXPECT_EQ(error.place().key, "pixels/00005");
            EXPECT_EQ(error.place().index, 5);
            EXPECT_EQ(error.place().offset, 77);
            EXPECT_STREQ(
                error.what(),
                "[made-up: pixels/00005 (sample 5) @ byte 77] expected good bytes, got bad ones; `stoker inspect "
                "--verify` lists all bad samples; data.bad_samples = 10 replaces up to ten");
        }
    });
}

TEST(LoaderErrors, AnExceptionOfOwnDataGetsItsPlace) {
    with_failure([] { throw std::runtime_error("my reader gave up"); },
                 [](Loader& loader) {
                     try {
                         loader.next();
                         ADD_FAILURE() << "no error";
                     } catch (const DataError& error) {
                         EXPECT_EQ(error.place().index, 5);
                         EXPECT_THAT(error.what(), HasSubstr("my reader gave up"));
                     }
                 });
}

class NoPrefetch final : public PixelDataset {
  public:
    using PixelDataset::PixelDataset;
    void prefetch(std::span<const std::int64_t> /*indices*/) const override {
        throw IoError({.where = "shard", .expected = "a file", .got = "none"});
    }
};

TEST(LoaderErrors, APrefetchIsAHint) {
    Loader loader(std::make_shared<NoPrefetch>(8), random_ops(), {.batch_size = 4, .workers = 1});
    EXPECT_EQ(loader.next()->size(), 4);
}

class BrokenSampler final : public Sampler {
  public:
    std::int64_t size() const override { return 8; }
    void draw(std::int64_t /*epoch*/, std::int64_t /*first*/, std::span<SampledIndex> /*out*/) const override {
        throw std::runtime_error("no order");
    }
    std::int64_t samples() const override { return 8; }
    std::uint64_t seed() const override { return 0; }
    std::string name() const override { return "broken"; }
};

TEST(LoaderErrors, ASamplerThatThrowsAtTheStartIsHeard) {
    for (const int workers : {0, 2}) {
        EXPECT_THAT(
            [&] {
                Loader(std::make_shared<PixelDataset>(8), random_ops(),
                       {.batch_size = 4, .workers = workers, .sampler = std::make_shared<BrokenSampler>()});
            },
            ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("no order")));
    }
}

TEST(LoaderErrors, ErrorsOfTheSystemStayWhatTheyAre) {
    with_failure([] { throw IoError({.where = "a.jpg", .expected = "a file", .got = "no such file"}); },
                 [](Loader& loader) { EXPECT_THROW(loader.next(), IoError); });
    with_failure([] { throw std::bad_alloc(); }, [](Loader& loader) { EXPECT_THROW(loader.next(), std::bad_alloc); });
}

TEST(LoaderErrors, TheFirstBadSampleOfABatchIsReportedForAnyNumberOfWorkers) {
    for (const int workers : {0, 1, 2, 8}) {
        const auto dataset = std::make_shared<PixelDataset>(64);
        for (const std::int64_t index : {21, 40, 63}) {
            dataset->failures[index] = [index] {
                std::this_thread::sleep_for(std::chrono::milliseconds(index == 21 ? 10 : 0));
                throw std::runtime_error("bad");
            };
        }
        Loader loader(dataset, random_ops(), {.batch_size = 64, .workers = workers, .shuffle = false});
        try {
            loader.next();
            ADD_FAILURE() << "no error";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().index, 21) << workers << " workers";
        }
    }
}

TEST(LoaderErrors, AnErrorInAnEpochsLastBatchEndsTheEpochToo) {
    const auto dataset = std::make_shared<PixelDataset>(8);
    dataset->failures[7] = [] { throw std::runtime_error("bad"); };
    Loader loader(dataset, random_ops(), {.batch_size = 4, .workers = 1, .epochs = 1, .shuffle = false});
    EXPECT_NE(loader.next(), nullptr);
    EXPECT_THROW(loader.next(), DataError);
    EXPECT_EQ(loader.state().epoch, 1);
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
}

TEST(LoaderErrors, ABadFirstSampleFailsAtOnceWithItsPlace) {
    const auto dataset = std::make_shared<PixelDataset>(8);
    dataset->failures[0] = [] { throw std::runtime_error("bad"); };
    try {
        Loader loader(dataset, random_ops(), {});
        ADD_FAILURE() << "no error";
    } catch (const DataError& error) {
        EXPECT_EQ(error.place().key, "pixels/00000");
        EXPECT_EQ(error.place().index, 0);
    }
}

TEST(LoaderErrors, AnImageOfAnotherSizeSaysWhatToAdd) {
    const auto dataset = std::make_shared<PixelDataset>(8);
    dataset->taller.insert(6);
    Loader loader(dataset, Transform(), {.batch_size = 8, .workers = 2});
    try {
        loader.next();
        ADD_FAILURE() << "no error";
    } catch (const DataError& error) {
        EXPECT_EQ(error.place().index, 6);
        EXPECT_STREQ(
            error.what(),
            "[made-up: pixels/00006 (sample 6)] expected 3 x 12 x 10 (channels, height, width), as of sample "
            "0, got 3 x 13 x 10; add an op that gives all images the same size, such as center_crop or resize with "
            "size = [height, width]");
    }
    Loader cropped(dataset, Transform(std::vector<Op>{CenterCrop{8, 8}}), {.batch_size = 8, .workers = 2});
    EXPECT_NE(cropped.next(), nullptr);
}

TEST(LoaderErrors, RawPixelsThatDoNotFitTheirShape) {
    class Odd final : public Dataset {
      public:
        std::int64_t size() const override { return 2; }
        void read(std::int64_t index, Sample& sample) const override {
            static const std::byte bytes[12] = {};
            sample.bytes = bytes;
            sample.height = index == 0 ? 2 : height;
            sample.width = index == 0 ? 2 : width;
            sample.channels = index == 0 ? 3 : channels;
        }
        int height = 2, width = 2, channels = 3;
    };
    const auto expect_error = [](int height, int width, int channels, const std::string& part) {
        const auto dataset = std::make_shared<Odd>();
        dataset->height = height;
        dataset->width = width;
        dataset->channels = channels;
        Loader loader(dataset, Transform(), {.batch_size = 2, .workers = 1});
        try {
            loader.next();
            ADD_FAILURE() << "no error";
        } catch (const DataError& error) {
            EXPECT_THAT(error.what(), HasSubstr(part));
        }
    };
    expect_error(2, 3, 3, "expected 18 bytes for 2 x 3 x 3, got 12");
    expect_error(-2, -2, 3, "at least 1 x 1 pixels");
    expect_error(0, 0, 3, "at least 1 x 1 pixels");
    expect_error(1, 2, 6, "1 to 4 channels");
}

TEST(LoaderErrors, NothingStaysOfTheSampleBefore) {
    for (const int workers : {0, 1}) {
        const auto dataset = std::make_shared<PixelDataset>(10);
        dataset->unlabelled = {3, 4, 8};
        Loader loader(dataset, random_ops(), {.batch_size = 10, .workers = workers, .shuffle = false});
        EXPECT_EQ(see(*loader.next()).labels, (std::vector<std::int64_t>{0, 3, 6, -1, -1, 5, 8, 1, -1, 7}));
    }
}

TEST(LoaderErrors, NoMemoryForASlotIsAnErrorOfNext) {
    for (const int workers : {0, 2}) {
        CountingAllocator allocator;
        allocator.most = 0;
        Loader loader(std::make_shared<PixelDataset>(40), random_ops(),
                      {.batch_size = 4, .workers = workers, .prefetch = 2, .allocator = &allocator});
        EXPECT_THROW(loader.next(), IoError);
        allocator.most = 1000;
        int good = 0;
        for (int i = 1; i < 10; ++i) {
            try {
                good += loader.next() != nullptr;
            } catch (const IoError&) {
            }
        }
        EXPECT_GE(good, 7) << "usable again once there is memory";
        EXPECT_EQ(loader.next(), nullptr);
    }
}

TEST(LoaderErrors, RefusesOptionsThatCannotBe) {
    const auto expect_refused = [](const LoaderOptions& options, const std::string& part) {
        try {
            Loader loader(std::make_shared<PixelDataset>(10), random_ops(), options);
            ADD_FAILURE() << "accepted, instead of an error about " << part;
        } catch (const InvalidArgument& error) {
            EXPECT_THAT(error.what(), HasSubstr(part));
        }
    };
    expect_refused({.batch_size = 0}, "batch_size");
    expect_refused({.batch_size = 4, .world_size = 3}, "a multiple of the 3 ranks");
    expect_refused({.batch_size = 4, .rank = 4, .world_size = 4}, "rank");
    expect_refused({.batch_size = 11, .drop_last = true}, "drop_last");
    expect_refused({.batch_size = 4, .epochs = -1}, "epochs");
}

TEST(LoaderErrors, ABatchSizeFarBeyondTheDataTakesNoMemoryForIt) {
    Loader loader(std::make_shared<PixelDataset>(10), random_ops(),
                  {.batch_size = std::int64_t{1} << 40, .workers = 2});
    EXPECT_EQ(loader.next()->size(), 10);
    EXPECT_EQ(loader.next(), nullptr);
}

TEST(LoaderErrors, TooLittleMemoryForASampleEndsTheRunAndNamesTheSample) {
    const auto dataset = std::make_shared<PixelDataset>(10);
    dataset->failures[5] = [] { Buffer pixels(std::size_t{100} << 20); };
    const testing::MemoryRoom room(80 * testing::kMiB);
    Loader loader(dataset, random_ops(), {.batch_size = 10, .workers = 2, .bad_samples = 10});
    EXPECT_THAT([&] { loader.next(); },
                ::testing::ThrowsMessage<MemoryError>(::testing::AllOf(
                    HasSubstr("[made-up: pixels/00005] expected"), HasSubstr("100 MiB"), HasSubstr("data.workers"))));
}

TEST(LoaderErrors, BatchesBeyondTheMemoryLimitAreRefusedAtOnce) {
    const auto dataset = std::make_shared<PixelDataset>(4000, 64, 64);
    const testing::MemoryRoom room(100 * testing::kMiB);
    const LoaderOptions options{.batch_size = 1000, .workers = 2, .prefetch = 3};  // 4 x 49 MB
    EXPECT_THAT([&] { Loader(dataset, Transform(), options); },
                ::testing::ThrowsMessage<MemoryError>(
                    ::testing::AllOf(HasSubstr("[data.batch_size]"), HasSubstr("4 batches of 1,000 images"),
                                     HasSubstr("lower data.batch_size or data.prefetch"))));
    Loader small(dataset, Transform(), {.batch_size = 100, .workers = 2, .prefetch = 3});
    EXPECT_NE(small.next(), nullptr);
}

// Otherwise a cache in memory, or another loader, would take it until the first batch is asked for.
TEST(LoaderErrors, TheMemoryOfBatchesToComeIsClaimed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep freed memory";
#endif
    const auto dataset = std::make_shared<PixelDataset>(4000, 64, 64);
    const LoaderOptions options{.batch_size = 1000, .workers = 0};  // 2 x 49 MB, allocated by next()
    const testing::MemoryRoom room(200 * testing::kMiB);
    {
        Loader validation(dataset, Transform(), options);
        EXPECT_THROW(Loader(dataset, Transform(), options), MemoryError);
        CacheCapacity cache;
        EXPECT_FALSE(cache.take(40 * testing::kMiB)) << "50 MiB stay free beside the batches";
        const std::shared_ptr<Batch> first = validation.next();
        const std::shared_ptr<Batch> second = validation.next();
        const std::shared_ptr<Batch> beyond_the_claim = validation.next();
        EXPECT_LT(promised_memory(), std::uint64_t{1} << 20) << "all batches are written";
    }
    EXPECT_EQ(promised_memory(), 0);
    CacheCapacity cache;
    EXPECT_TRUE(cache.take(40 * testing::kMiB));
    EXPECT_NO_THROW(Loader(dataset, Transform(), options));
}

// The workers' buffers keep the size of the largest sample, unless that was huge.
TEST(LoaderErrors, WorkersGiveBackTheMemoryOfHugeSamples) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep freed memory";
#endif
    class Huge final : public Dataset {
      public:
        std::int64_t size() const override { return 64; }
        void read(std::int64_t index, Sample& sample) const override {
            if (index % 8 == 3) {
                sample.storage.resize(std::size_t{300} << 20);
                std::fill_n(sample.storage.data(), sample.storage.size(), std::byte{1});
            }
            sample.storage.resize(12);
            std::fill_n(sample.storage.data(), 12, std::byte{1});
            sample.set_raw(sample.storage.bytes(), 2, 2, 3);
        }
    };
    const auto used_mib = [] {
        set_memory_limit(std::int64_t{1} << 62);
        const MemoryLimit limit = memory_limit();
        set_memory_limit(0);
        return static_cast<std::int64_t>((limit.total - limit.available) >> 20);
    };
    const std::int64_t before = used_mib();
    Loader loader(std::make_shared<Huge>(), Transform(),
                  {.batch_size = 64, .workers = 2, .epochs = 1, .shuffle = false});  // no worker reads ahead
    ASSERT_NE(loader.next(), nullptr);
    EXPECT_LT(used_mib() - before, 250);
}

}  // namespace
}  // namespace stoker::loader_error_test
