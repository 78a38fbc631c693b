// The partition that dynamic programming finds is the best of all.
#include "stoker/dist/stage_partition.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace stoker {
namespace {

using ::testing::ElementsAre;

double slowest(const std::vector<double>& costs, const std::vector<std::size_t>& firsts) {
    return std::ranges::max(stage_costs(costs, firsts));
}

// The slow reference: tries all partitions.
double best_of_all(const std::vector<double>& costs, std::size_t stages) {
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> firsts = {0};
    const std::function<void()> extend = [&] {
        if (firsts.size() == stages) {
            best = std::min(best, slowest(costs, firsts));
            return;
        }
        for (std::size_t first = firsts.back() + 1; first < costs.size(); ++first) {
            firsts.push_back(first);
            extend();
            firsts.pop_back();
        }
    };
    extend();
    return best;
}

TEST(StagePartition, BalancesTheStages) {
    const std::vector<double> costs = {4, 1, 1, 1, 1, 4};
    EXPECT_THAT(partition_stages(costs, 1), ElementsAre(0));
    EXPECT_THAT(partition_stages(costs, 2), ElementsAre(0, 3));
    EXPECT_THAT(partition_stages(costs, 3), ElementsAre(0, 1, 5));
    EXPECT_THAT(partition_stages(costs, 6), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(stage_costs(costs, partition_stages(costs, 3)), ElementsAre(4, 4, 4));
}

TEST(StagePartition, RunsEndWithATrainedBlock) {
    EXPECT_THAT(trained_runs({true, true, true}), ElementsAre(0, 1, 2));
    EXPECT_THAT(trained_runs({false, true, false, false, true, false}), ElementsAre(0, 2));
    EXPECT_THAT(trained_runs({false, false}), ElementsAre());
    const std::vector<double> costs = {1, 1, 1, 1, 3, 1};
    const std::vector<std::size_t> runs = {0, 2, 5};
    EXPECT_THAT(partition_runs(costs, runs, 2), ElementsAre(0, 2)) << "of 2 and 6";
    EXPECT_THAT(partition_runs(costs, runs, 3), ElementsAre(0, 2, 5));
}

TEST(StagePartition, NoOtherCutHasAFasterSlowestStage) {
    std::mt19937 draw(3);
    for (int round = 0; round < 200; ++round) {
        std::vector<double> costs(2 + draw() % 9);
        std::ranges::generate(costs, [&] { return static_cast<double>(draw() % 20); });
        const std::size_t stages = 1 + draw() % costs.size();
        const std::vector<std::size_t> firsts = partition_stages(costs, stages);
        ASSERT_EQ(firsts.size(), stages);
        EXPECT_EQ(firsts[0], 0U);
        EXPECT_TRUE(std::ranges::is_sorted(firsts, std::less_equal<>())) << "no stage is empty";
        EXPECT_LT(firsts.back(), costs.size());
        EXPECT_DOUBLE_EQ(slowest(costs, firsts), best_of_all(costs, stages));
        EXPECT_EQ(partition_stages(costs, stages), firsts);
    }
}

}  // namespace
}  // namespace stoker
