// Dataset::prefetch receives every batch, in order, before its samples are read, and nothing else.
#include <gtest/gtest.h>

#include <mutex>

#include "pipeline/pixel_source.h"
#include "stoker/formats/subset.h"

namespace stoker {
namespace {

using testing::PixelDataset;

class FetchingDataset final : public Dataset {
  public:
    explicit FetchingDataset(std::int64_t size) : pixels_(size) {}

    std::int64_t size() const override { return pixels_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        pixels_.read(index, sample);
        const std::lock_guard lock(mutex_);
        unannounced_ += announced_.contains(index) ? 0 : 1;
    }
    void prefetch(std::span<const std::int64_t> indices) const override {
        const std::lock_guard lock(mutex_);
        batches_.emplace_back(indices.begin(), indices.end());
        announced_.insert(indices.begin(), indices.end());
    }
    std::vector<std::vector<std::int64_t>> batches() const {
        const std::lock_guard lock(mutex_);
        return batches_;
    }
    std::int64_t unannounced() const { return unannounced_; }

  private:
    PixelDataset pixels_;
    mutable std::mutex mutex_;
    mutable std::vector<std::vector<std::int64_t>> batches_;
    mutable std::set<std::int64_t> announced_;
    mutable std::int64_t unannounced_ = 0;
};

TEST(Prefetch, IsToldOfEachBatchInOrder) {
    for (const int workers : {0, 1, 3}) {
        const auto dataset = std::make_shared<FetchingDataset>(40);
        Loader loader(dataset, Transform{}, {.batch_size = 16, .workers = workers, .epochs = 2});
        std::vector<std::vector<std::int64_t>> want;
        for (const auto& seen : testing::see_epochs(loader, 2)) {
            want.push_back(seen.indices);
        }
        EXPECT_EQ(want.size(), 6u);
        EXPECT_EQ(dataset->batches(), want) << workers << " workers";
        if (workers <= 1) {  // with several workers, one may read before another has called prefetch
            EXPECT_EQ(dataset->unannounced(), 1) << "sample 0, for its shape";
        }
    }
}

// Every batch is prefetched while the one before it is read; cached samples are not prefetched again.
TEST(Prefetch, IsToldABatchAheadOfWhatHasToBeRead) {
    const auto dataset = std::make_shared<FetchingDataset>(40);
    Loader loader(dataset, Transform{},
                  {.batch_size = 16,
                   .workers = 0,
                   .epochs = 2,
                   .images = PixelImages{.cache = {.bytes = std::int64_t{1} << 20}}});
    EXPECT_EQ(dataset->batches().size(), 1U);
    loader.next();
    EXPECT_EQ(dataset->batches().size(), 2U);
    loader.next();
    EXPECT_EQ(dataset->batches().size(), 3U);
    testing::see_epochs(loader, 2);
    std::int64_t told = 0;
    for (const auto& batch : dataset->batches()) {
        told += static_cast<std::int64_t>(batch.size());
    }
    EXPECT_GE(told, 40);
    EXPECT_LE(told, 40 + 16) << "the second epoch's first batch, before the first one was read to its end";
}

TEST(Prefetch, ThroughASubsetNamesTheSamplesOfTheWhole) {
    const auto dataset = std::make_shared<FetchingDataset>(40);
    Loader loader(std::make_shared<Subset>(dataset, std::vector<std::int64_t>{30, 7, 21}), Transform{},
                  {.batch_size = 2, .epochs = 1, .shuffle = false});
    testing::see_epochs(loader, 1);
    EXPECT_EQ(dataset->batches(), (std::vector<std::vector<std::int64_t>>{{30, 7}, {21}}));
}

}  // namespace
}  // namespace stoker
