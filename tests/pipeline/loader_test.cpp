// The loader gives the same bytes in the same order for any number of workers and any timing.
#include "stoker/pipeline/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <numeric>

#include "pipeline/pixel_source.h"
#include "stoker/base/float16.h"
#include "stoker/records/accounting.h"

namespace stoker::loader_test {
namespace {

using std::chrono::milliseconds;
using testing::CountingAllocator;
using testing::difference;
using testing::PixelDataset;
using testing::random_ops;
using testing::see;
using testing::see_epochs;
using testing::Seen;

std::vector<Seen> run(std::int64_t size, const LoaderOptions& options, int epochs) {
    auto source = std::make_shared<PixelDataset>(size);
    source->delay = [](std::int64_t index) { return std::chrono::microseconds(index % 5 == 0 ? 200 : 0); };
    Loader loader(source, random_ops(), options);
    return see_epochs(loader, epochs);
}

TEST(Loader, TheSameBytesForAnyNumberOfWorkers) {
    const LoaderOptions options{.batch_size = 12, .workers = 0, .seed = 5};
    const auto alone = run(50, options, 3);
    ASSERT_EQ(alone.size(), 15u);
    for (const int workers : {1, 2, 8}) {
        for (const int prefetch : {1, 4}) {
            LoaderOptions more = options;
            more.workers = workers;
            more.prefetch = prefetch;
            EXPECT_EQ(difference(run(50, more, 3), alone), "") << workers << " workers, prefetch " << prefetch;
        }
    }
}

TEST(Loader, RestsOnceAllBatchesAheadAreFinished) {
    auto source = std::make_shared<PixelDataset>(64);
    source->delay = [](std::int64_t) { return milliseconds(20); };
    Loader loader(source, Transform(), {.batch_size = 8, .workers = 1, .prefetch = 2});
    EXPECT_FALSE(loader.at_rest());
    for (int i = 0; i < 5000 && !loader.at_rest(); ++i) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(loader.at_rest());
    loader.next();
    EXPECT_EQ(loader.ready_batches(), 2);
    EXPECT_FALSE(loader.at_rest());
    loader.set_workers(0);
    EXPECT_TRUE(loader.at_rest());
}

TEST(Loader, MeasuresNothingWhileTheAccountIsOff) {
    const auto measured = [](bool on) {
        const struct Restore {
            ~Restore() { set_accounting(true); }
        } restore{};
        set_accounting(on);
        Loader loader(std::make_shared<PixelDataset>(64), random_ops(), {.batch_size = 8, .workers = 2});
        see_epochs(loader, 2);
        loader.set_workers(0);
        return loader.stats().workers;
    };
    EXPECT_GT(measured(true).cpu.count(), 0);
    const StageTimes off = measured(false);
    EXPECT_EQ(off.cpu.count(), 0);
    for (const std::chrono::nanoseconds time : off.times) {
        EXPECT_EQ(time.count(), 0);
    }
}

TEST(Loader, ABatchIsWhatItsIndicesSay) {
    const auto source = std::make_shared<PixelDataset>(23, 4, 6, 2);
    Loader loader(source, Transform(), {.batch_size = 5, .workers = 2, .seed = 1});
    EXPECT_EQ(loader.batches_per_epoch(), 5);
    EXPECT_EQ(loader.image_shape(), (Shape{2, 4, 6}));
    std::vector<std::int64_t> all;
    for (const Seen& batch : see_epochs(loader, 1)) {
        ASSERT_EQ(batch.image.size(), batch.indices.size() * 48);
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
            all.push_back(batch.indices[i]);
            EXPECT_EQ(batch.labels[i], batch.indices[i] * 3 % 10);
            EXPECT_EQ(batch.keys[i], source->key(batch.indices[i]));
            Sample sample;
            source->read(batch.indices[i], sample);
            for (std::size_t pixel = 0; pixel < 24; ++pixel) {
                for (std::size_t c = 0; c < 2; ++c) {
                    const float want = static_cast<float>(std::to_integer<int>(sample.bytes[pixel * 2 + c])) / 255.0f;
                    ASSERT_NEAR(batch.image[i * 48 + c * 24 + pixel], want, 1e-6);
                }
            }
        }
    }
    std::sort(all.begin(), all.end());
    std::vector<std::int64_t> every(23);
    std::iota(every.begin(), every.end(), 0);
    EXPECT_EQ(all, every);
}

TEST(Loader, NormalizeForOtherChannelsIsRefused) {
    const auto source = std::make_shared<PixelDataset>(3, 4, 6, 1);
    EXPECT_THROW(Loader(source, Transform(std::vector<Op>{kImageNetNormalize}), {.batch_size = 1}), InvalidArgument);
    EXPECT_NO_THROW(Loader(source, Transform(std::vector<Op>{kMnistNormalize}), {.batch_size = 1}));
}

TEST(Loader, RanksTogetherMakeTheSameGlobalBatches) {
    for (const bool drop_last : {false, true}) {
        const LoaderOptions options{.batch_size = 12, .workers = 2, .seed = 9, .drop_last = drop_last};
        const auto alone = run(50, options, 2);
        for (const int world_size : {2, 4, 12}) {  // with 12 ranks, most have none of the last two samples
            std::vector<Seen> together(alone.size());
            for (int rank = 0; rank < world_size; ++rank) {
                LoaderOptions own = options;
                own.rank = rank;
                own.world_size = world_size;
                const auto part = run(50, own, 2);
                ASSERT_EQ(part.size(), alone.size()) << "every rank takes as many steps";
                for (std::size_t i = 0; i < part.size(); ++i) {
                    Seen& whole = together[i];
                    whole.epoch = part[i].epoch;
                    whole.number = part[i].number;
                    whole.hash = alone[i].hash;  // a rank hashes only its keys
                    whole.image.insert(whole.image.end(), part[i].image.begin(), part[i].image.end());
                    whole.labels.insert(whole.labels.end(), part[i].labels.begin(), part[i].labels.end());
                    whole.indices.insert(whole.indices.end(), part[i].indices.begin(), part[i].indices.end());
                    whole.keys.insert(whole.keys.end(), part[i].keys.begin(), part[i].keys.end());
                }
            }
            EXPECT_EQ(difference(together, alone), "") << world_size << " ranks";
        }
    }
}

TEST(Loader, EpochsDifferInOrderAndAugmentation) {
    Loader loader(std::make_shared<PixelDataset>(20), random_ops(), {.batch_size = 20, .workers = 1, .seed = 2});
    const auto shuffled = see_epochs(loader, 2);
    EXPECT_NE(shuffled[0].indices, shuffled[1].indices);

    Loader in_order(std::make_shared<PixelDataset>(20), random_ops(),
                    {.batch_size = 20, .workers = 1, .seed = 2, .shuffle = false});
    const auto plain = see_epochs(in_order, 2);
    EXPECT_EQ(plain[0].indices, plain[1].indices);
    const std::size_t pixels = plain[0].image.size() / 20;
    int changed = 0;
    for (std::size_t i = 0; i < 20; ++i) {
        const auto begin = static_cast<std::ptrdiff_t>(i * pixels);
        changed += !std::equal(plain[0].image.begin() + begin,
                               plain[0].image.begin() + begin + static_cast<std::ptrdiff_t>(pixels),
                               plain[1].image.begin() + begin);
    }
    EXPECT_GE(changed, 18) << "of 20 samples drawn anew";
}

// A sample's augmentation does not depend on its batch or its position in it.
TEST(Loader, AugmentationFollowsTheSampleNotItsPlace) {
    Loader in_order(std::make_shared<PixelDataset>(20), random_ops(),
                    {.batch_size = 20, .workers = 0, .seed = 2, .shuffle = false});
    Loader shuffled(std::make_shared<PixelDataset>(20), random_ops(), {.batch_size = 7, .workers = 3, .seed = 2});
    const Seen whole = see_epochs(in_order, 1).front();
    const auto pixels = static_cast<std::ptrdiff_t>(whole.image.size() / 20);
    for (const Seen& batch : see_epochs(shuffled, 1)) {
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
            const auto begin = batch.image.begin() + static_cast<std::ptrdiff_t>(i) * pixels;
            EXPECT_TRUE(std::equal(begin, begin + pixels, whole.image.begin() + batch.indices[i] * pixels));
        }
    }
}

TEST(Loader, NullEndsEachEpochOnceAndTheLastForEver) {
    for (const int workers : {0, 2}) {
        Loader loader(std::make_shared<PixelDataset>(10), random_ops(),
                      {.batch_size = 4, .workers = workers, .epochs = 2});
        for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
            for (std::int64_t number = 0; number < 3; ++number) {
                const auto batch = loader.next();
                ASSERT_NE(batch, nullptr);
                EXPECT_EQ(batch->epoch(), epoch);
                EXPECT_EQ(batch->number(), number);
                EXPECT_EQ(batch->size(), number == 2 ? 2 : 4);
            }
            EXPECT_EQ(loader.next(), nullptr);
        }
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(loader.next(), nullptr);
        }
    }
}

TEST(Loader, WaitForEndsWhenABatchOrTheEndOfAnEpochIsThere) {
    for (const int workers : {0, 1}) {
        const auto source = std::make_shared<PixelDataset>(8);
        std::atomic<bool> held = true;
        source->delay = [&](std::int64_t) { return held ? milliseconds(30) : milliseconds(0); };
        Loader loader(source, random_ops(), {.batch_size = 8, .workers = workers, .epochs = 1});
        EXPECT_EQ(loader.wait_for(milliseconds(1)), workers == 0) << "without workers next() does the work";
        held = false;
        EXPECT_TRUE(loader.wait_for(milliseconds(60'000)));
        EXPECT_NE(loader.next(), nullptr);
        EXPECT_TRUE(loader.wait_for(milliseconds(60'000)));
        EXPECT_EQ(loader.next(), nullptr);
    }
}

TEST(Loader, ReadsNothingBeyondTheLastEpoch) {
    const auto source = std::make_shared<PixelDataset>(10);
    Loader loader(source, random_ops(), {.batch_size = 4, .workers = 2, .prefetch = 8, .epochs = 2});
    see_epochs(loader, 2);
    EXPECT_EQ(source->reads, 1 + 20) << "one to learn the shape, and each sample twice";
}

TEST(Loader, WorkersAndPrefetchChangeNothingWhileItRuns) {
    const LoaderOptions options{.batch_size = 8, .workers = 0, .seed = 4};
    const auto alone = run(60, options, 4);
    Loader loader(std::make_shared<PixelDataset>(60), random_ops(), {.batch_size = 8, .workers = 2, .seed = 4});
    std::vector<Seen> seen;
    for (std::size_t step = 0; seen.size() < alone.size(); ++step) {
        constexpr int kWorkers[] = {3, 1, 0, 5, 2, 0, 1};
        loader.set_workers(kWorkers[step % 7]);
        loader.set_prefetch(static_cast<int>(step % 5));
        if (const auto batch = loader.next()) {
            seen.push_back(see(*batch));
        }
    }
    EXPECT_EQ(difference(seen, alone), "");
}

TEST(Loader, CacheChangesNoByte) {
    const LoaderOptions options{.batch_size = 8, .workers = 0, .seed = 4};
    const auto alone = run(60, options, 3);
    for (const std::int64_t budget : {1, 480, 10'000, 1 << 20}) {
        for (const int workers : {0, 3}) {
            LoaderOptions cached = options;
            cached.images = PixelImages{.cache = {.bytes = budget}};
            cached.workers = workers;
            const auto source = std::make_shared<PixelDataset>(60);
            Loader loader(source, random_ops(), cached);
            std::vector<Seen> seen;
            for (int nulls = 0; nulls < 3;) {
                const auto batch = loader.next();
                if (batch) {
                    seen.push_back(see(*batch));
                }
                nulls += batch == nullptr;
                ASSERT_LE(loader.stats().cached_bytes, budget);
            }
            EXPECT_EQ(difference(seen, alone), "") << budget << " bytes, " << workers << " workers";
            if (budget == 1 << 20) {
                EXPECT_LE(source->reads, 1 + 60 + 8 * 4)
                    << "only batches in flight at the end of the epoch are read twice";
            }
        }
    }
}

// Ops before the first random one are cached with the pixels.
TEST(Loader, CacheWithLeadingFixedOps) {
    const auto ops = [] {
        return Transform(std::vector<Op>{Resize{.shorter = 9}, CenterCrop{8, 8}, HorizontalFlip{}, kImageNetNormalize});
    };
    Loader plain(std::make_shared<PixelDataset>(30), ops(), {.batch_size = 8, .workers = 0, .seed = 4});
    Loader cached(std::make_shared<PixelDataset>(30), ops(),
                  {.batch_size = 8, .workers = 2, .seed = 4, .images = PixelImages{.cache = {.bytes = 1 << 20}}});
    EXPECT_EQ(difference(see_epochs(cached, 3), see_epochs(plain, 3)), "");
    EXPECT_LE(cached.stats().cached_bytes, 30 * (8 + 32 + 8 * 8 * 3));
}

TEST(Loader, HeldBatchesStayAsTheyAre) {
    const auto alone = run(40, {.batch_size = 8, .workers = 0, .seed = 3}, 1);
    std::vector<std::shared_ptr<Batch>> held;
    {
        Loader loader(std::make_shared<PixelDataset>(40), random_ops(), {.batch_size = 8, .workers = 2, .seed = 3});
        while (auto batch = loader.next()) {
            held.push_back(std::move(batch));
        }
        see_epochs(loader, 2);
    }
    std::vector<Seen> seen;
    for (const auto& batch : held) {
        seen.push_back(see(*batch));
    }
    EXPECT_EQ(difference(seen, alone), "");
}

TEST(Loader, SlotsComeFromTheGivenAllocatorAndAreReused) {
    for (const int workers : {0, 1, 4}) {
        CountingAllocator allocator;
        {
            Loader loader(std::make_shared<PixelDataset>(64), random_ops(),
                          {.batch_size = 8, .workers = workers, .prefetch = 3, .allocator = &allocator});
            EXPECT_TRUE(loader.next()->pinned());
            see_epochs(loader, 20);
            EXPECT_LE(allocator.allocations, 4) << "for 160 batches: three under way and the one in use";
        }
        EXPECT_EQ(allocator.live, 0);
    }
}

TEST(Loader, EndsQuicklyInTheMiddleOfItsWork) {
    const auto source = std::make_shared<PixelDataset>(10'000);
    std::atomic<bool> ending = false;
    std::atomic<int> late = 0;  // reads that begin after the end was asked for
    source->delay = [&](std::int64_t) {
        late += ending ? 1 : 0;
        return milliseconds(10);
    };
    for (int round = 0; round < 5; ++round) {
        ending = false;
        auto loader = std::make_unique<Loader>(source, random_ops(),
                                               LoaderOptions{.batch_size = 512, .workers = 4, .prefetch = 8});
        std::this_thread::sleep_for(milliseconds(3 * round));
        late = 0;
        ending = true;
        loader.reset();
        EXPECT_LE(late, 4 * 10) << "the rest of four workers' tasks is about 120 samples";
    }
}

TEST(Loader, EndsWithFullQueues) {
    const auto source = std::make_shared<PixelDataset>(100);
    auto loader =
        std::make_unique<Loader>(source, random_ops(), LoaderOptions{.batch_size = 10, .workers = 4, .prefetch = 4});
    const auto held = loader->next();
    while (source->reads < 1 + 50) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(source->reads, 1 + 50) << "back-pressure: four batches beyond the one in use";
    loader.reset();
    EXPECT_EQ(see(*held).indices.size(), 10u);
}

TEST(Loader, StatsCountTheWork) {
    for (const int workers : {0, 2}) {
        const auto source = std::make_shared<PixelDataset>(20);
        source->delay = [](std::int64_t) { return milliseconds(1); };
        Loader loader(source, random_ops(), {.batch_size = 5, .workers = workers, .epochs = 1});
        see_epochs(loader, 1);
        loader.set_workers(0);
        const LoaderStats stats = loader.stats();
        EXPECT_EQ(stats.workers.samples, 20);
        EXPECT_GE(stats.workers[Stage::read], milliseconds(20));
        EXPECT_GT(stats.workers[Stage::augment].count(), 0);
        EXPECT_EQ(stats.workers[Stage::pixels].count(), 0) << "raw pixels need none";
    }
}

TEST(Loader, ALogSeesEveryPieceOnce) {
    for (const int workers : {0, 3}) {
        const auto log = std::make_shared<WorkLog>();
        std::int64_t items = 0;
        StageTimes sum;
        {
            Loader loader(std::make_shared<PixelDataset>(40), random_ops(),
                          {.batch_size = 8, .workers = workers, .epochs = 1});
            loader.set_workers(0);  // ends what began before the log
            loader.restore(loader.state());
            loader.set_log(log);
            loader.set_workers(workers);
            while (loader.next() != nullptr) {
            }
        }
        for (const WorkSpan& span : log->take_spans()) {
            EXPECT_LE(span.began, span.ended);
            EXPECT_EQ(span.worker == WorkSpan::kTrainingThread, workers == 0);
            EXPECT_GE(span.batch, 0);
            items += span.end - span.begin;
            sum += span.times;
        }
        EXPECT_EQ(items, 40) << workers << " workers";
        EXPECT_EQ(sum.samples, 40);
        EXPECT_FALSE(log->take_levels().empty());
        EXPECT_TRUE(log->take_spans().empty()) << "taken already";
    }
}

TEST(Loader, APieceKeepsItsLogUntilItIsDone) {
    Loader loader(std::make_shared<PixelDataset>(400), random_ops(), {.batch_size = 100, .workers = 2});
    for (int i = 0; i < 200; ++i) {
        loader.set_log(std::make_shared<WorkLog>());  // the one before goes while workers write to it
        loader.next();
    }
    loader.set_log(nullptr);
}

TEST(Loader, OtherTypesAreTheFloatsRoundedAndThePixelsThemselves) {
    const auto batch_of = [](Layout layout, DType dtype) {
        Loader loader(
            std::make_shared<PixelDataset>(12), random_ops(),
            {.batch_size = 6, .workers = 2, .seed = 8, .layout = layout, .images = PixelImages{.dtype = dtype}});
        return loader.next();
    };
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
        const auto whole = batch_of(layout, DType::float32);
        const auto floats = whole->field(kImageField).as<float>();
        const auto pixels_batch = batch_of(layout, DType::uint8);
        const auto pixels = pixels_batch->field(kImageField).as<std::uint8_t>();
        ASSERT_EQ(pixels.size(), floats.size());
        const NormalizeFactors factors = normalize_factors(kImageNetNormalize);
        for (const DType dtype : {DType::bfloat16, DType::float16}) {
            const auto batch = batch_of(layout, dtype);
            const TensorView field = batch->field(kImageField);
            EXPECT_EQ(field.dtype, dtype);
            const auto* halves = reinterpret_cast<const std::uint16_t*>(field.data);
            for (std::size_t i = 0; i < floats.size(); ++i) {
                const std::size_t channel = layout == Layout::chw ? i / 64 % 3 : i % 3;
                ASSERT_EQ(halves[i], dtype == DType::bfloat16 ? to_bfloat16(floats[i]) : to_float16(floats[i]));
                ASSERT_NEAR(floats[i], static_cast<float>(pixels[i]) * factors.scale[channel] + factors.bias[channel],
                            1e-5);
            }
        }
    }
    EXPECT_THROW(batch_of(Layout::chw, DType::int64), InvalidArgument);
}

TEST(Loader, ChannelsLastIsTheSameImageTransposed) {
    const LoaderOptions options{.batch_size = 6, .workers = 1, .seed = 8};
    LoaderOptions last = options;
    last.layout = Layout::hwc;
    Loader planes(std::make_shared<PixelDataset>(12), random_ops(), options);
    Loader interleaved(std::make_shared<PixelDataset>(12), random_ops(), last);
    EXPECT_EQ(interleaved.image_shape(), planes.image_shape()) << "the shape is (C, H, W) either way";
    const auto batch = interleaved.next();
    EXPECT_EQ(batch->fields().front().layout, FieldLayout::channels_last);
    const Seen a = see(*planes.next());
    const Seen b = see(*batch);
    for (std::size_t n = 0; n < 6; ++n) {
        for (std::size_t c = 0; c < 3; ++c) {
            for (std::size_t pixel = 0; pixel < 64; ++pixel) {
                ASSERT_EQ(a.image[(n * 3 + c) * 64 + pixel], b.image[(n * 64 + pixel) * 3 + c]);
            }
        }
    }
}

// As a device does that still reads them: all memory is there from the start.
TEST(Loader, BatchesThatTheCallerHoldsAreAllocatedAtTheStart) {
    for (const int workers : {0, 2}) {
        CountingAllocator memory;
        Loader loader(std::make_shared<PixelDataset>(400), random_ops(),
                      {.batch_size = 4, .workers = workers, .prefetch = 2, .allocator = &memory, .held = 3});
        const std::int64_t all = (workers == 0 ? 1 : 2) + 1 + 3;
        EXPECT_EQ(memory.allocations, all);
        std::deque<std::shared_ptr<Batch>> held;
        for (int i = 0; i < 90; ++i) {
            held.push_back(loader.next());
            if (held.size() > 3) {
                held.pop_front();
            }
        }
        EXPECT_EQ(memory.allocations, all);
    }
    CountingAllocator memory;
    const Loader few(std::make_shared<PixelDataset>(8), random_ops(),
                     {.batch_size = 4, .workers = 2, .epochs = 1, .allocator = &memory, .held = 3});
    EXPECT_EQ(memory.allocations, 2) << "no more than there are batches";
}

}  // namespace
}  // namespace stoker::loader_test
