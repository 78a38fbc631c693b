// Saving and restoring the loader's position: it continues with the next batch, for any number of workers and ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "pipeline/pixel_source.h"

namespace stoker::loader_restore_test {
namespace {

using testing::difference;
using testing::PixelDataset;
using testing::random_ops;
using testing::see;
using testing::see_epochs;
using testing::Seen;

constexpr std::int64_t kSize = 50;
constexpr std::size_t kBatches = 5;  // of an epoch

LoaderOptions options(int workers = 1) {
    return {.batch_size = 12, .workers = workers, .seed = 77};
}

std::unique_ptr<Loader> make(const LoaderOptions& own, std::int64_t size = kSize) {
    return std::make_unique<Loader>(PixelDataset::with_fields(size), random_ops(), own);
}

std::vector<Seen> take(Loader& loader, std::size_t batches) {
    std::vector<Seen> seen;
    while (seen.size() < batches) {
        if (const auto batch = loader.next()) {
            seen.push_back(see(*batch));
        }
    }
    return seen;
}

TEST(LoaderRestore, GoesOnWithTheVeryNextBatch) {
    const auto all = take(*make(options()), 4 * kBatches);
    std::mt19937 random(1);
    for (int round = 0; round < 25; ++round) {
        const std::size_t cut = random() % (3 * kBatches + 1);
        const auto first = make(options(static_cast<int>(random() % 4)));
        take(*first, cut);
        const std::string json = to_json(first->state());
        const auto second = make(options(static_cast<int>(random() % 4)));
        take(*second, random() % 7);  // from any position
        second->restore(loader_state_from_json(json));
        EXPECT_EQ(to_json(second->state()), json);
        const auto rest = take(*second, all.size() - cut);
        EXPECT_EQ(difference(rest, {all.begin() + static_cast<std::ptrdiff_t>(cut), all.end()}), "") << "cut " << cut;
    }
}

TEST(LoaderRestore, FitsAnyNumberOfRanks) {
    const auto all = take(*make(options()), 2 * kBatches);
    for (const std::size_t cut : {0, 1, 4, 5, 7}) {
        LoaderOptions before = options(2);
        before.rank = 1;
        before.world_size = 2;
        const auto first = make(before);
        take(*first, cut);
        const LoaderState state = first->state();
        for (const int world_size : {1, 4}) {
            std::vector<std::vector<std::int64_t>> together(all.size() - cut);
            for (int rank = 0; rank < world_size; ++rank) {
                LoaderOptions after = options(1);
                after.rank = rank;
                after.world_size = world_size;
                const auto second = make(after);
                second->restore(state);
                const auto part = take(*second, all.size() - cut);
                for (std::size_t i = 0; i < part.size(); ++i) {
                    together[i].insert(together[i].end(), part[i].indices.begin(), part[i].indices.end());
                }
            }
            for (std::size_t i = 0; i < together.size(); ++i) {
                EXPECT_EQ(together[i], all[cut + i].indices) << "cut " << cut << ", " << world_size << " ranks";
            }
        }
    }
}

TEST(LoaderRestore, TheSameLoaderMayGoBack) {
    const auto loader = make(options(2));
    take(*loader, 2);
    const LoaderState state = loader->state();
    const auto ahead = take(*loader, 2 * kBatches);
    loader->restore(state);
    EXPECT_EQ(difference(take(*loader, 2 * kBatches), ahead), "");
}

TEST(LoaderRestore, EpochsStillEnd) {
    LoaderOptions bounded = options();
    bounded.epochs = 2;
    const auto first = make(bounded);
    take(*first, kBatches - 1);
    const auto second = make(bounded);
    second->restore(first->state());
    EXPECT_EQ(see_epochs(*second, 1).size(), 1u);
    EXPECT_EQ(see_epochs(*second, 1).size(), kBatches);
    EXPECT_EQ(second->next(), nullptr);

    // Between an epoch's last batch and its null, and after the last epoch.
    const auto third = make(bounded);
    take(*first, 1);
    EXPECT_EQ(first->state().epoch, 1);
    EXPECT_EQ(first->state().batch, 0);
    third->restore(first->state());
    EXPECT_EQ(see_epochs(*third, 1).size(), kBatches) << "the next epoch begins at once";
    const LoaderState end = third->state();
    const auto fourth = make(bounded);
    fourth->restore(end);
    EXPECT_EQ(fourth->next(), nullptr);
    EXPECT_EQ(fourth->next(), nullptr);
    EXPECT_EQ(fourth->state(), end);
}

void expect_refused(const LoaderOptions& own, std::int64_t size, const std::function<void(LoaderState&)>& change = {}) {
    const auto loader = make(own, size);
    LoaderState state = make(options())->state();
    if (change) {
        change(state);
    }
    const auto before = loader->state();
    EXPECT_THROW(loader->restore(state), InvalidArgument) << to_json(state);
    EXPECT_EQ(loader->state(), before);
    EXPECT_NE(loader->next(), nullptr) << "a refused state changes nothing";
}

TEST(LoaderRestore, RefusesTheStateOfOtherDataOrOptions) {
    const auto changed = [](auto change) {
        LoaderOptions own = options();
        change(own);
        return own;
    };
    expect_refused(options(), kSize + 1);
    expect_refused(changed([](LoaderOptions& own) { own.seed = 78; }), kSize);
    expect_refused(changed([](LoaderOptions& own) { own.batch_size = 24; }), kSize);
    expect_refused(changed([](LoaderOptions& own) { own.shuffle = false; }), kSize);
    expect_refused(changed([](LoaderOptions& own) { own.drop_last = true; }), kSize);
}

TEST(LoaderRestore, RefusesPlacesThatDoNotExist) {
    constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t batch : {std::int64_t{-1}, std::int64_t{kBatches}, kHuge}) {
        expect_refused(options(), kSize, [batch](LoaderState& state) { state.batch = batch; });
    }
    for (const std::int64_t epoch : {std::int64_t{-1}, kHuge / 5, kHuge}) {
        expect_refused(options(), kSize, [epoch](LoaderState& state) { state.epoch = epoch; });
    }
}

TEST(LoaderRestore, SaysWhatDiffers) {
    const LoaderState state = make(options())->state();
    const auto message = [&](const LoaderOptions& own, std::int64_t size) -> std::string {
        try {
            make(own, size)->restore(state);
        } catch (const InvalidArgument& error) {
            return error.what();
        }
        return "restored";
    };
    using ::testing::HasSubstr;
    EXPECT_THAT(message(options(), kSize + 1),
                HasSubstr("[data.train] expected 50 samples, as when the run began, got 51 samples; resume with"));
    LoaderOptions other = options();
    other.seed = 78;
    EXPECT_THAT(message(other, kSize), HasSubstr("[seed] expected 77, as when the run began, got 78"));
    other = options();
    other.batch_size = 24;
    EXPECT_THAT(message(other, kSize), HasSubstr("[data.batch_size] expected"));
}

}  // namespace
}  // namespace stoker::loader_restore_test
