// A run's work besides its steps, and steps that are too small, uneven or bound by launches.
#include <gmock/gmock.h>

#include <limits>

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

// A profile judges some of the steps that were run.
TEST(RunRules, EvaluationsBesideOtherStepsDoNotCount) {
    RankRecords rank = with_evaluations(2, 10);
    ASSERT_EQ(rank.evaluations.back().step, 900);
    rank.steps.erase(rank.steps.begin() + 50, rank.steps.end());  // half a second
    EXPECT_THAT(rules_above_info(diagnose_rank(rank)), ::testing::IsEmpty());
    rank = with_evaluations(20, 10);
    rank.steps.erase(rank.steps.begin() + 50, rank.steps.end());
    const Finding finding = diagnose_rank(rank).findings.front();
    EXPECT_EQ(finding.rule, "frequent-evaluation");
    EXPECT_NEAR(finding.evidence.front().value, 2.0 / 3, 0.01) << "a second of evaluations and half a second of steps";
}

TEST(RunRules, ADamagedNumberOfEpochsDoesNoHarm) {
    RankRecords rank = with_evaluations(10, 5);
    rank.facts.train.epochs_per_evaluation = std::numeric_limits<int>::max();
    const RecipeChange change = diagnose_rank(rank).findings.front().fix.recipe.front();
    EXPECT_EQ(change, (RecipeChange{"train.evaluate_every", "10737418235"}));
}

TEST(RunRules, CheckpointsTooOften) {
    const MadeUpRun run{.share = {{Phase::forward, 0.7}, {Phase::checkpoint, 0.3}}};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "frequent-checkpoints");
    const MadeUpRun some{.share = {{Phase::forward, 0.85}, {Phase::checkpoint, 0.15}}};
    EXPECT_EQ(diagnose_rank(some.rank()).verdict.rule, "healthy");
    EXPECT_EQ(diagnose_rank(some.rank()).findings.front().severity, Severity::info);
    const MadeUpRun seldom{.share = {{Phase::forward, 0.95}, {Phase::checkpoint, 0.05}}};
    EXPECT_EQ(diagnose_rank(seldom.rank()).verdict.rule, "healthy");
}

TEST(RunRules, SmallBatches) {
    const std::map<Phase, double> share = {{Phase::forward, 0.4}, {Phase::backward, 0.3}, {Phase::optimizer, 0.3}};
    const Diagnosis diagnosis = diagnose_rank(MadeUpRun{.share = share, .batch_size = 2}.rank());
    ASSERT_EQ(diagnosis.verdict.rule, "small-batch");
    const Gain gain = diagnosis.findings.front().gain;  // 16 samples a step
    EXPECT_NEAR(gain.low, 1 / (1 - 0.3 * 14 / 16), 1e-9);
    EXPECT_NEAR(gain.expected, 1 / (1 - (0.3 + 0.7 * 3 / 5) * 14 / 16), 1e-9);
    RankRecords few = MadeUpRun{.share = share, .batch_size = 12}.rank();
    few.facts.data.samples = 96;  // an epoch keeps four steps
    EXPECT_THAT(diagnose_rank(few).findings.front().text, ::testing::HasSubstr("A batch of 24 needs"));
    few.facts.data.samples = 40;
    EXPECT_EQ(diagnose_rank(few).verdict.rule, "healthy");
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
    EXPECT_THAT(diagnosis.findings.front().text, ::testing::Not(::testing::HasSubstr("epoch")));
    for (StepEntry& step : rank.steps) {
        step.epoch = (step.step - 1) / 20 + 1;
    }
    rank.facts.writer = kPythonWriter;
    EXPECT_THAT(diagnose_rank(rank).findings.front().text, ::testing::EndsWith("Most are the first of an epoch."));
    rank.facts.data.loader = "DataLoader";
    rank.facts.data.persistent = false;
    const Finding finding = diagnose_rank(rank).findings.front();
    EXPECT_THAT(finding.text, ::testing::HasSubstr("in which the workers begin anew"));
    EXPECT_THAT(finding.fix.code, ::testing::HasSubstr("persistent_workers=True"));
}

// A run whose checkpoints between epochs take as long as its steps.
Diagnosis with_checkpoints(int epochs, const std::string& every, const std::string& keep_best = "") {
    RankRecords rank = MadeUpRun{}.rank();
    for (StepEntry& step : rank.steps) {
        step.epoch = (step.step - 1) * epochs / std::ssize(rank.steps) + 1;
    }
    rank.total.emplace();
    rank.total->times[static_cast<std::size_t>(Phase::forward)] = std::chrono::seconds(10);
    rank.total->times[static_cast<std::size_t>(Phase::checkpoint)] = std::chrono::seconds(10);
    for (int epoch = 1; epoch <= epochs; ++epoch) {
        rank.evaluations.push_back({.step = epoch * std::ssize(rank.steps) / epochs});
    }
    return diagnose({.ranks = {rank}, .recipe = {{"train.checkpoint_every", every}, {"train.keep_best", keep_best}}});
}

TEST(RunRules, TheLastCheckpointStays) {
    EXPECT_EQ(with_checkpoints(1, "1 epoch").verdict.rule, "healthy");
    EXPECT_EQ(with_checkpoints(2, "2 epochs").verdict.rule, "healthy");
    EXPECT_EQ(with_checkpoints(1, "5000 steps").verdict.rule, "healthy");
    const Finding finding = with_checkpoints(4, "2 epochs").findings.front();
    EXPECT_EQ(finding.rule, "frequent-checkpoints");
    EXPECT_EQ(finding.fix.recipe.front(), (RecipeChange{"train.checkpoint_every", "\"4 epochs\""}));
    EXPECT_NEAR(finding.gain.high, 1 / 0.75, 1e-6) << "one of two stays";
    const Finding best = with_checkpoints(4, "2 epochs", "val_loss").findings.front();
    EXPECT_NEAR(best.gain.high, 1 / (1 - 0.5 / 6), 1e-6) << "and up to four models of evaluations";
}

TEST(RunRules, CheckpointsAreMadeRarer) {
    RankRecords rank = MadeUpRun{.share = {{Phase::forward, 0.7}, {Phase::checkpoint, 0.3}}}.rank();
    const auto fix = [&] {
        return diagnose({.ranks = {rank}, .recipe = {{"train.checkpoint_every", "1 steps"}}}).findings.front().fix;
    };
    EXPECT_EQ(fix().recipe.front(), (RecipeChange{"train.checkpoint_every", "\"21 steps\""}));
    rank.facts.train.steps_per_epoch = 20;
    EXPECT_EQ(fix().recipe.front(), (RecipeChange{"train.checkpoint_every", "\"2 epochs\""}));
}

TEST(RunRules, GainsAreOfTheWholeRun) {
    RankRecords rank = MadeUpRun{.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}},
                                 .stages = {{Stage::pixels, 0.95}},
                                 .workers = 1,
                                 .process_cores = 1.4,
                                 .busy_share = 0.7}
                           .rank();
    EXPECT_NEAR(diagnose_rank(rank).findings.front().gain.high, 1 / 0.7, 0.01);
    rank.evaluations.push_back({.step = 1000});
    rank.evaluations.back().host.times[static_cast<std::size_t>(Phase::forward)] = std::chrono::seconds(10);
    const Finding finding = diagnose_rank(rank).findings.front();
    EXPECT_EQ(finding.rule, "few-workers");
    EXPECT_NEAR(finding.gain.high, 1 / (1 - 0.5 * 0.3), 0.01) << "half of the run are steps";
    EXPECT_NEAR(diagnose_rank(with_evaluations(10, 5)).findings.front().gain.high, 1 / 0.6, 0.01);
    EXPECT_NEAR(diagnose_rank(with_evaluations(30, 10)).findings.front().gain.high, 1 / (1 - 0.75 * 0.9), 0.01);
}

// A run of Stoker without a profile. It reads losses every 50 steps; a GPU that is behind makes it wait there.
TEST(RunRules, ARunWhoseHostNeverWaitsForTheGpu) {
    const auto run = [](const std::map<Phase, double>& share, double wait_us) {
        RankRecords rank = MadeUpRun{.share = share}.rank();
        rank.facts.device = {.type = "cuda"};
        for (IntervalEntry& interval : rank.intervals) {
            interval.syncs = {{.place = "losses", .count = 2, .us = 2 * wait_us}};
        }
        return rank;
    };
    const std::map<Phase, double> launches = {{Phase::forward, 0.3}, {Phase::backward, 0.55}, {Phase::copy, 0.04}};
    const RankRecords eager = run(launches, 90);
    const Diagnosis diagnosis = diagnose({.ranks = {eager}, .recipe = {{"train.compile", "none"}}});
    ASSERT_EQ(diagnosis.verdict.rule, "launch-bound");
    EXPECT_EQ(diagnosis.findings.front().fix.recipe.at(0), (RecipeChange{"train.compile", "\"auto\""}));
    EXPECT_GT(diagnosis.findings.front().gain.high, 5);
    EXPECT_EQ(diagnose({.ranks = {eager}, .recipe = {{"train.compile", "auto"}}}).verdict.rule, "healthy")
        << "a model that cannot be a graph may wait where that is not seen";

    const auto verdict = [](const RankRecords& rank) {
        return diagnose({.ranks = {rank}, .recipe = {{"train.compile", "none"}}}).verdict.rule;
    };
    EXPECT_EQ(verdict(run(launches, 1500)), "healthy") << "a GPU whose queue is full";
    RankRecords parts = run(launches, 400);
    EXPECT_EQ(verdict(parts), "launch-bound");
    parts.facts.train.accumulate = 4;
    EXPECT_EQ(verdict(parts), "healthy") << "four times as many launches fill the queue sooner";
    const std::map<Phase, double> graph = {{Phase::step, 0.9}, {Phase::sync, 0.02}};
    EXPECT_EQ(verdict(run(graph, 90)), "healthy");
    const std::map<Phase, double> starved = {{Phase::forward, 0.2}, {Phase::backward, 0.3}, {Phase::wait, 0.5}};
    EXPECT_NE(verdict(run(starved, 90)), "launch-bound");
    RankRecords cpu = eager;
    cpu.facts.device.type = "cpu";
    EXPECT_NE(verdict(cpu), "launch-bound");
}

}  // namespace
}  // namespace stoker
