// What a run does besides its steps, and steps that are too small or uneven.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

RankRecords with_evaluations(double seconds, int count) {
    const MadeUpRun run;  // ten seconds of steps
    RankRecords rank = run.rank();
    for (int i = 0; i < count; ++i) {
        EvaluationEntry entry{.step = 100 * i};
        entry.host.times[static_cast<std::size_t>(Phase::forward)] = MadeUpRun::nanoseconds_of(seconds / count);
        rank.evaluations.push_back(entry);
    }
    return rank;
}

TEST(RunRules, EvaluationTooOften) {
    const Diagnosis diagnosis = diagnose_rank(with_evaluations(10, 5));
    EXPECT_EQ(diagnosis.verdict.rule, "frequent-evaluation");
    EXPECT_EQ(diagnosis.findings.front().fix.recipe.front(), (RecipeChange{"train.evaluate_every", "5"}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.6, 0.01) << "one evaluation of five stays";
    EXPECT_EQ(diagnose_rank(with_evaluations(2, 5)).verdict.rule, "healthy");
}

TEST(RunRules, CheckpointsTooOften) {
    const MadeUpRun run{.share = {{Phase::forward, 0.7}, {Phase::checkpoint, 0.3}}};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "frequent-checkpoints");
    const MadeUpRun seldom{.share = {{Phase::forward, 0.95}, {Phase::checkpoint, 0.05}}};
    EXPECT_EQ(diagnose_rank(seldom.rank()).verdict.rule, "healthy");
}

TEST(RunRules, SmallBatches) {
    const std::map<Phase, double> share = {{Phase::forward, 0.4}, {Phase::backward, 0.3}, {Phase::optimizer, 0.3}};
    EXPECT_EQ(diagnose_rank(MadeUpRun{.share = share, .batch_size = 2}.rank()).verdict.rule, "small-batch");
    EXPECT_EQ(diagnose_rank(MadeUpRun{.share = share, .batch_size = 64}.rank()).verdict.rule, "healthy");
    const std::map<Phase, double> mostly_forward = {{Phase::forward, 0.95}, {Phase::optimizer, 0.05}};
    EXPECT_EQ(diagnose_rank(MadeUpRun{.share = mostly_forward, .batch_size = 2}.rank()).verdict.rule, "healthy");
}

TEST(RunRules, UnevenStepsAreMentioned) {
    const MadeUpRun run;
    RankRecords rank = run.rank();
    for (std::size_t i = 0; i < rank.steps.size(); i += 20) {
        rank.steps[i].host.times[static_cast<std::size_t>(Phase::forward)] *= 8;
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    EXPECT_EQ(diagnosis.verdict.rule, "healthy");
    ASSERT_FALSE(diagnosis.findings.empty());
    EXPECT_EQ(diagnosis.findings.front().rule, "uneven-steps");
}

}  // namespace
}  // namespace stoker
