// Rules about ranks: gloo, exposed communication, stages that wait, stragglers.
#include <gmock/gmock.h>

#include "diagnose/rules/profiles.h"
#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

TEST(RankRules, GlooOnGpusAndExposedCommunication) {
    RankRecords rank = made({}, {});
    rank.facts.world_size = 2;
    rank.profile->collectives = {
        {.name = "gloo:all_reduce", .backend = "gloo", .on_device = true, .count = 10, .us = 3e4, .exposed_us = 2e4}};
    const auto gloo = find(rank, "gloo-on-gpu");
    ASSERT_TRUE(gloo);
    EXPECT_DOUBLE_EQ(value(*gloo, "exposed_share"), 0.2);
    EXPECT_FALSE(find(rank, "communication"));  // said once
    rank.profile->collectives[0].backend = "nccl";
    EXPECT_FALSE(find(rank, "gloo-on-gpu"));
    const auto nccl = find(rank, "communication");
    ASSERT_TRUE(nccl);
    EXPECT_DOUBLE_EQ(value(*nccl, "exposed_share"), 0.2);
    EXPECT_THAT(nccl->gain.high, DoubleNear(1 / 0.9, 1e-9)) << "the fix halves it";
    rank.profile->collectives[0].exposed_us = 9e3;
    EXPECT_FALSE(find(rank, "communication"));
}

TEST(RankRules, ABarrierOfGlooMovesNoGradients) {
    RankRecords rank = made({}, {});
    rank.facts.world_size = 2;
    rank.profile->collectives = {
        {.name = "gloo:barrier", .backend = "gloo", .on_device = true, .count = 1, .us = 2e4, .exposed_us = 2e4},
        {.name = "nccl:all_reduce", .backend = "nccl", .on_device = true, .count = 10, .us = 3e4, .exposed_us = 2e4}};
    EXPECT_FALSE(find(rank, "gloo-on-gpu"));
    EXPECT_TRUE(find(rank, "communication"));
    rank.profile->collectives[0].name = "gloo:all_reduce";
    EXPECT_FALSE(find(rank, "gloo-on-gpu")) << "gradients go through NCCL, so these are in host memory";
    rank.profile->collectives[1].name = "nccl:broadcast";
    ASSERT_TRUE(find(rank, "gloo-on-gpu"));
    EXPECT_DOUBLE_EQ(value(*find(rank, "gloo-on-gpu"), "exposed_share"), 0.2) << "without NCCL's";
    rank.profile->collectives[0].exposed_us = 1e3;
    EXPECT_FALSE(find(rank, "gloo-on-gpu"));
}

TEST(RankRules, ShardsAreSentInBf16ByTheirOwnWrapper) {
    RankRecords rank = made({}, {});
    rank.facts.world_size = 2;
    rank.profile->collectives = {
        {.name = "nccl:all_gather", .backend = "nccl", .on_device = true, .count = 10, .us = 3e4, .exposed_us = 2e4},
        {.name = "nccl:all_reduce", .backend = "nccl", .on_device = true, .count = 1, .us = 1e3, .exposed_us = 1e3}};
    EXPECT_THAT(find(rank, "communication")->fix.code, HasSubstr("FullyShardedDataParallel"));
    rank.profile->collectives[1].us = 5e4;
    EXPECT_THAT(find(rank, "communication")->fix.code, HasSubstr("bf16_compress_hook"));
    rank.profile->collectives.back().half = true;
    EXPECT_THAT(find(rank, "communication")->text, HasSubstr("have 16 bits already"));
    EXPECT_THAT(find(rank, "communication")->fix.code, HasSubstr("no_sync()"));
}

std::vector<Finding> stragglers(const std::vector<RankRecords>& ranks, const std::string& kind = "trace") {
    std::vector<Finding> found = diagnose({.kind = kind, .ranks = ranks}).findings;
    std::erase_if(found, [](const Finding& finding) { return finding.rule != "straggler"; });
    return found;
}

TEST(RankRules, TheRankThatOthersWaitFor) {
    // All steps take 10 ms; three ranks spend half of them in communication.
    std::vector<RankRecords> ranks;
    for (int i = 0; i < 4; ++i) {
        ranks.push_back(made(i == 2 ? std::map<Phase, double>{{Phase::backward, 0.6}}
                                    : std::map<Phase, double>{{Phase::communication, 0.5}, {Phase::backward, 0.2}},
                             {}, false));
        ranks.back().facts.rank = i;
        ranks.back().facts.world_size = 4;
    }
    const std::vector<Finding> found = stragglers(ranks);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 2);
    EXPECT_DOUBLE_EQ(value(found[0], "step_ms"), 10);
    EXPECT_DOUBLE_EQ(value(found[0], "other_step_ms"), 5);
    EXPECT_THAT(found[0].text, HasSubstr("\"backward\" (4.0 ms)"));
    EXPECT_THAT(found[0].gain.high, DoubleNear(2, 1e-9));
    std::vector<RankRecords> unrelated = ranks;
    for (RankRecords& rank : unrelated) {
        rank.facts.world_size = 1;
    }
    EXPECT_TRUE(stragglers(unrelated).empty());
    ranks[2] = made({{Phase::communication, 0.45}}, {}, false);  // 10 % slower
    ranks[2].facts.world_size = 4;
    EXPECT_TRUE(stragglers(ranks).empty());
    EXPECT_TRUE(stragglers({ranks[0]}).empty());
}

TEST(RankRules, TheTrainersBackwardPassHoldsTheWaitForOthers) {
    std::vector<RankRecords> ranks;
    for (int i = 0; i < 2; ++i) {
        ranks.push_back(made(i == 1 ? std::map<Phase, double>{{Phase::wait, 0.4}, {Phase::backward, 0.4}}
                                    : std::map<Phase, double>{{Phase::wait, 0.0}, {Phase::backward, 0.8}},
                             {}, false));
        ranks.back().facts.rank = i;
        ranks.back().facts.world_size = 2;
    }
    const std::vector<Finding> found = stragglers(ranks, "run");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_THAT(found[0].text, HasSubstr("\"wait\" (4.0 ms)"));
}

// Ten steps of 43 ms on a GPU; the rest of a rank's time is exposed communication.
RankRecords on_gpu_with(int number, double own_ms) {
    RankRecords rank = made({}, {});
    rank.facts.rank = number;
    rank.facts.world_size = 2;
    for (StepEntry& step : rank.steps) {
        step.host.times[static_cast<std::size_t>(Phase::forward)] = std::chrono::milliseconds(43);
    }
    rank.profile->span_us = 430e3;
    rank.profile->collectives = {{.name = "nccl:all_reduce",
                                  .backend = "nccl",
                                  .on_device = true,
                                  .count = 10,
                                  .exposed_us = 10e3 * (43 - own_ms)}};
    return rank;
}

TEST(RankRules, AStragglerCostsAPartOfTheStep) {
    EXPECT_TRUE(stragglers({on_gpu_with(0, 10), on_gpu_with(1, 13)}).empty()) << "3 of 43 ms";
    const std::vector<Finding> found = stragglers({on_gpu_with(0, 10), on_gpu_with(1, 20)});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_THAT(found[0].gain.high, DoubleNear(1 / (1 - 10.0 / 43), 1e-6));
}

// Four intervals of ten steps as rank 0 writes them: its own steps one by one, of another rank the sums.
RankRecords in_intervals(int number, const std::vector<double>& step_ms, Phase phase = Phase::forward) {
    RankRecords rank;
    rank.facts.rank = number;
    rank.facts.world_size = 2;
    for (int i = 0; i < 4; ++i) {
        IntervalEntry interval{.first_step = 10 * i + 1, .last_step = 10 * (i + 1), .seconds = 1};
        for (int step = 0; step < 10; ++step) {
            const auto time = std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * step_ms[step % step_ms.size()]));
            interval.host.times[static_cast<std::size_t>(phase)] += time;
            rank.steps.push_back({.step = interval.first_step + step});
            rank.steps.back().host.times[static_cast<std::size_t>(phase)] = time;
        }
        rank.intervals.push_back(interval);
    }
    return rank;
}

TEST(RankRules, UnevenStepsOfRankZeroDoNotHideAStraggler) {
    const std::vector<Finding> found = stragglers({in_intervals(0, {2, 22}), in_intervals(1, {16})}, "run");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rank, 1);
}

TEST(RankRules, AWaitForTheGpuIsAWaitForTheOthersToo) {
    std::vector<RankRecords> ranks = {in_intervals(0, {10}), in_intervals(1, {20}, Phase::sync)};
    ASSERT_EQ(stragglers(ranks, "run").size(), 1u);
    for (RankRecords& rank : ranks) {
        rank.facts.device.type = "cuda";
    }
    for (const Finding& finding : stragglers(ranks, "run")) {
        EXPECT_EQ(finding.rank, 0);
    }
}

// Rank 0 of a run on CPUs waits for `share` of its time; rank 1 a little longer.
std::vector<RankRecords> waiting_ranks(double share) {
    std::vector<RankRecords> ranks;
    for (const int number : {0, 1}) {
        const double waits = share + 0.01 * number;
        ranks.push_back(
            MadeUpRun{.share = {{Phase::communication, waits}, {Phase::forward, 1 - waits}}, .batch_size = 64}.rank());
        ranks.back().facts.rank = number;
        ranks.back().facts.world_size = 2;
    }
    return ranks;
}

std::optional<Finding> ranks_finding(const std::vector<RankRecords>& ranks, std::string_view rule) {
    const Diagnosis diagnosis = diagnose({.kind = "run", .ranks = ranks});
    const auto found = std::ranges::find(diagnosis.findings, rule, &Finding::rule);
    return found == diagnosis.findings.end() ? std::nullopt : std::optional(*found);
}

TEST(RankRules, StagesThatWaitGetMoreMicroBatches) {
    std::vector<RankRecords> ranks = waiting_ranks(0.25);
    EXPECT_EQ(ranks_finding(ranks, "communication")->fix.recipe.at(0).key, "train.compress_gradients");
    for (RankRecords& rank : ranks) {
        rank.facts.train.stages = "fc1 (4.1 ms) | fc2 (3.9 ms)";
        rank.facts.train.accumulate = 4;
    }
    const auto found = ranks_finding(ranks, "communication");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->fix.recipe, (std::vector{RecipeChange{"train.accumulate", "8"}}));
    for (RankRecords& rank : ranks) {
        rank.facts.train.accumulate = 32;  // of 64 samples, which both stages share
    }
    EXPECT_EQ(ranks_finding(ranks, "communication")->fix.recipe, (std::vector{RecipeChange{"train.accumulate", "64"}}));
    EXPECT_EQ(found->severity, Severity::warn);
    ranks = waiting_ranks(0.12);
    ranks[0].facts.train.stages = "fc1 (4.1 ms) | fc2 (3.9 ms)";
    EXPECT_EQ(ranks_finding(ranks, "communication")->severity, Severity::info) << "a pipeline has a bubble";
}

TEST(RankRules, StagesAreNoStragglers) {
    std::vector<RankRecords> ranks = {in_intervals(0, {10}), in_intervals(1, {20})};
    ASSERT_EQ(stragglers(ranks, "run").size(), 1u);
    ranks[0].facts.train.stages = "fc1 (10 ms) | fc2 (20 ms)";
    EXPECT_TRUE(stragglers(ranks, "run").empty());
}

TEST(RankRules, RanksWithoutStepsAreNotComparedByThem) {
    std::vector<RankRecords> ranks = waiting_ranks(0.25);
    ranks[1].steps.clear();
    EXPECT_TRUE(ranks_finding(ranks, "communication"));
}

}  // namespace
}  // namespace stoker
