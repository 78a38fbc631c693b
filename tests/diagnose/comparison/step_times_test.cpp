// Steps as a comparison counts them: rare costs apart, and reads of losses with the step before them.
#include "stoker/diagnose/comparison/step_times.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

using std::chrono::milliseconds;

constexpr auto at(Phase phase) {
    return static_cast<std::size_t>(phase);
}

RankRecords steps_of(int count) {
    RankRecords rank;
    for (int i = 1; i <= count; ++i) {
        StepEntry step{.step = i, .samples = 8};
        step.host.times[at(Phase::forward)] = milliseconds(10);
        rank.steps.push_back(step);
    }
    return rank;
}

TEST(StepTimes, TheSumIsThatOfTheDiagnosis) {
    RankRecords rank = steps_of(100);
    rank.steps[40].host.times[at(Phase::checkpoint)] = milliseconds(500);
    rank.intervals = {{.first_step = 1, .last_step = 50, .seconds = 1, .after_us = 7000},
                      {.first_step = 51, .last_step = 100, .seconds = 1, .after_us = 9000}};
    const StepTimes times = step_times(rank);
    ASSERT_EQ(times.steps.size(), 90U) << "a tenth is warm-up";
    EXPECT_DOUBLE_EQ(times.steps[39][at(Phase::sync)], 7e-3) << "step 50";
    EXPECT_DOUBLE_EQ(times.steps[89][at(Phase::sync)], 9e-3) << "step 100";
    const double rare = 0.5;
    EXPECT_NEAR(90 * sum_of(times.mean()) + rare, seconds_of(times.judged.account.total()), 1e-9);
    EXPECT_EQ(times.samples, 8);
}

TEST(StepTimes, SamplesAreThoseOfAllRanks) {
    RankRecords rank = steps_of(20);
    rank.facts.train.batch_size = 16;
    EXPECT_EQ(step_times(rank).samples, 8) << "as the steps say";
    rank.facts.world_size = 2;
    EXPECT_EQ(step_times(rank).samples, 16);
}

TEST(StepTimes, CheckpointsAndEvaluationsAreSpread) {
    RankRecords rank = steps_of(100);
    rank.steps[19].host.times[at(Phase::checkpoint)] = milliseconds(100);
    rank.steps[39].host.times[at(Phase::checkpoint)] = milliseconds(300);
    rank.evaluations = {{.step = 50}, {.step = 100}};
    rank.evaluations[0].host.times[at(Phase::forward)] = milliseconds(1000);
    rank.evaluations[1].host.times[at(Phase::forward)] = milliseconds(1000);
    const StepTimes times = step_times(rank);
    EXPECT_EQ(times.checkpoint.count, 2);
    EXPECT_DOUBLE_EQ(times.checkpoint.every, 20);
    EXPECT_DOUBLE_EQ(times.checkpoint.seconds, 0.2);
    EXPECT_DOUBLE_EQ(times.checkpoint.per_step(), 0.01);
    EXPECT_DOUBLE_EQ(times.evaluation.every, 50);
    EXPECT_DOUBLE_EQ(times.evaluation.per_step(), 0.02);
    EXPECT_DOUBLE_EQ(times.evaluation.deviation, 0);
}

TEST(StepTimes, WhatOneIsTooShortForIsLeftOutOfBoth) {
    RankRecords with = steps_of(100);
    with.evaluations = {{.step = 100}};
    with.evaluations[0].host.times[at(Phase::forward)] = milliseconds(1000);
    StepTimes a = step_times(with);
    StepTimes b = step_times(steps_of(120));
    EXPECT_EQ(drop_what_one_lacks(a, b), std::vector{Phase::evaluate});
    EXPECT_EQ(a.evaluation.count, 0);
    a = step_times(with);
    b = step_times(steps_of(300));
    EXPECT_TRUE(drop_what_one_lacks(a, b).empty()) << "it would have had one";
    EXPECT_EQ(a.evaluation.count, 1);
}

}  // namespace
}  // namespace stoker
