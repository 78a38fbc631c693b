// The exchange between ranks without training: slices become batches, bad samples reach rank 0, the budget is shared.
#include "stoker/train/run/rank_sync.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "stoker/base/error.h"
#include "support/ranks.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;
using testing::SquareDataset;

TEST(RankSync, MergesSlicesIntoBatches) {
    const auto data = std::make_shared<SquareDataset>(37);  // batches of 16, 16 and 5
    const auto losses_of = [](const Loader& loader, Batch& batch) {
        return static_cast<double>(batch.size()) / static_cast<double>(loader.batch_sampler().samples(batch.number()));
    };
    const auto read = [&](Loader& loader, std::vector<StepResult>& steps, std::vector<double>& losses) {
        while (const auto batch = loader.next()) {
            const auto* first = reinterpret_cast<const std::int64_t*>(batch->field(kIndexField).data);
            steps.push_back({.batch_hash = batch->hash(), .record = {}, .indices = {first, first + batch->size()}});
            losses.push_back(losses_of(loader, *batch));
        }
    };
    Loader whole(data, Transform(), {.batch_size = 16});
    std::vector<StepResult> expected;
    std::vector<double> ones;
    read(whole, expected, ones);
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             const RankSync ranks(*group, {.data = group, .figures = group}, {.count = 10});
                             Loader loader(data, Transform(),
                                           {.batch_size = 16, .rank = group->rank(), .world_size = 2});
                             std::vector<StepResult> steps;
                             std::vector<double> losses;
                             read(loader, steps, losses);
                             EXPECT_EQ(ranks.merge(steps, losses, 1 + group->rank(), loader), 3);
                             EXPECT_EQ(losses.size(), 3u);
                             for (std::size_t i = 0; i < steps.size(); ++i) {
                                 EXPECT_NEAR(losses[i], 1, 1e-12);
                                 EXPECT_EQ(steps[i].indices, expected[i].indices) << i;
                                 EXPECT_EQ(steps[i].batch_hash == expected[i].batch_hash, group->first());
                             }
                         }),
                Each(""));
}

TEST(RankSync, StartsFromRankZerosTensors) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             const RankSync ranks(*group, {.data = group, .figures = group}, {});
                             const at::Tensor tensor = at::full({3}, group->rank());
                             ranks.start({.whole = {tensor}});
                             EXPECT_EQ(tensor.sum().template item<double>(), 0);
                         }),
                Each(""));
}

TEST(RankSync, BadSamplesReachRankZero) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             RankSync ranks(*group, {.data = group, .figures = group}, {});
                             const std::string line = "rank " + std::to_string(group->rank()) + "\n";
                             EXPECT_EQ(ranks.add_bad_samples(line), group->first() ? line : "");
                             EXPECT_EQ(ranks.gather_bad_samples(), "rank 1\n");
                             EXPECT_EQ(ranks.gather_bad_samples(), "") << "each once";
                             ranks.add_bad_samples(line);
                             if (!group->first()) {
                                 EXPECT_EQ(ranks.publish_bad_samples(), "");
                             }
                             group->barrier();
                             if (group->first()) {
                                 EXPECT_EQ(ranks.publish_bad_samples(), "rank 1\n");
                             }
                             group->barrier();
                         }),
                Each(""));
}

TEST(RankSync, TheBudgetIsOfAllRanks) {
    const SquareDataset data(100);
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             const RankSync ranks(*group, {.data = group, .figures = group}, {.count = 4});
                             EXPECT_NO_THROW(ranks.require_budget(data, 100, 4));
                             EXPECT_THROW(ranks.require_budget(data, 100, 5), DataError);
                         }),
                Each(""));
}

TEST(RankSync, AloneExchangesNothing) {
    Group group;
    RankSync ranks(group, {}, {.count = 4});
    EXPECT_EQ(ranks.vote(15), 15);
    EXPECT_EQ(ranks.vote(0), 0);
    EXPECT_EQ(ranks.add_bad_samples("line\n"), "line\n");
    EXPECT_EQ(ranks.gather_bad_samples(), "");
    EXPECT_EQ(ranks.publish_bad_samples(), "");
    EXPECT_NO_THROW(ranks.require_budget(SquareDataset(100), 100, 5)) << "its loader counts";
}

}  // namespace
}  // namespace stoker
