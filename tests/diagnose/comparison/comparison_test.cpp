// Planted pairs, whose cause the comparison has to name, and equal pairs, which must not alarm.
#include "stoker/diagnose/comparison/comparison.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "diagnose/comparison/made_up_runs.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

struct Planted {
    std::string cause;
    MadeUpTraining a = {};
    MadeUpTraining b = {};
};

Planted planted(const std::string& cause, auto change, MadeUpTraining a = {}) {
    a.seed = 0;
    for (const char letter : cause) {
        a.seed = 31 * a.seed + static_cast<unsigned char>(letter);
    }
    MadeUpTraining b = a;
    b.seed = a.seed + 1;
    change(b);
    return {.cause = cause, .a = a, .b = b};
}

std::vector<Planted> planted_pairs() {
    return {
        planted("data.workers", [](MadeUpTraining& b) { b.workers = 1; }),
        planted("data.prefetch", [](MadeUpTraining& b) { b.prefetch = 1; }, {.prefetch = 8, .stalls = 0.02}),
        planted("data.storage", [](MadeUpTraining& b) { b.storage = "network", b.read = 2500; }),
        planted("workers.read", [](MadeUpTraining& b) { b.read = 2500; }),
        planted("data.train_ops",
                [](MadeUpTraining& b) {
                    b.augment = 2000;
                    b.train_ops = "[{op = random_resized_crop, size = 224}, {op = rand_augment}]";
                }),
        planted("train.precision", [](MadeUpTraining& b) { b.precision = "fp32", b.step_factor = 1.8; }),
        planted("train.channels_last", [](MadeUpTraining& b) { b.channels_last = false, b.step_factor = 1.25; }),
        planted("syncs.train.py:41", [](MadeUpTraining& b) { b.item_each_step = true; }),
        planted("train.batch_size", [](MadeUpTraining& b) { b.batch = 16, b.steps_per_epoch = 400; }),
        planted("software.torch", [](MadeUpTraining& b) { b.torch = "2.12.0", b.step_factor = 1.15; }),
        planted("host.cores", [](MadeUpTraining& b) { b.cores = 3; }),
        planted("load.other_processes", [](MadeUpTraining& b) { b.others = 0.7; }),
        planted("train.checkpoint_every", [](MadeUpTraining& b) { b.checkpoint_every = 50; }),
        planted("train.epochs_per_evaluation", [](MadeUpTraining& b) { b.evaluate_every = 1; }),
    };
}

class Comparing : public ::testing::Test {
  protected:
    Comparison compare_runs(const MadeUpTraining& a, const MadeUpTraining& b) {
        return compare(recorded(folder_ / "a", a), recorded(folder_ / "b", b));
    }

    stoker::testing::TempDir folder_;
};

std::string first_cause(const Comparison& comparison) {
    return comparison.causes.empty() ? "" : comparison.differences[comparison.causes[0]].difference.key;
}

TEST_F(Comparing, ThePlantedCauseIsNamed) {
    for (const Planted& pair : planted_pairs()) {
        const Comparison slower = compare_runs(pair.a, pair.b);
        EXPECT_EQ(first_cause(slower), pair.cause) << slower.verdict;
        const Difference& cause = slower.differences[slower.causes.at(0)].difference;
        EXPECT_NE(slower.verdict.find(fmt::format("{} {} -> {}", cause.name, cause.a, cause.b)), std::string::npos)
            << slower.verdict;
        // Others' load may be all of a difference.
        const bool load = pair.cause.starts_with("load.");
        EXPECT_EQ(slower.outcome, load ? Outcome::unclear : Outcome::slower) << slower.verdict;
    }
}

TEST_F(Comparing, TheOtherWayRoundBIsFaster) {
    for (const Planted& pair : planted_pairs()) {
        const Comparison faster = compare_runs(pair.b, pair.a);
        EXPECT_EQ(first_cause(faster), pair.cause) << faster.verdict;
        const bool load = pair.cause.starts_with("load.");
        EXPECT_EQ(faster.outcome, load ? Outcome::unclear : Outcome::faster) << faster.verdict;
        EXPECT_FALSE(fails(faster, 0));
    }
}

// Several facts differ, and one of them acts on the phase that grew.
TEST_F(Comparing, TheFactOfThePhaseThatGrewIsNamed) {
    MadeUpTraining a;
    MadeUpTraining b{.workers = 1, .torch = "2.12.0", .storage = "SSD", .checkpoint_every = 400, .seed = 2};
    EXPECT_EQ(first_cause(compare_runs(a, b)), "data.workers");
    b.workers = a.workers;
    b.read = 2500;
    EXPECT_EQ(first_cause(compare_runs(a, b)), "data.storage");
    b.read = a.read;
    b.step_factor = 1.2;
    EXPECT_EQ(first_cause(compare_runs(a, b)), "software.torch");
}

TEST_F(Comparing, TwoCausesAreBothNamed) {
    const Comparison comparison = compare_runs({}, {.workers = 1, .checkpoint_every = 25, .seed = 2});
    ASSERT_EQ(comparison.causes.size(), 2U) << comparison.verdict;
    EXPECT_NE(comparison.verdict.find("data.workers 4 -> 1, train.checkpoint_every 500 steps -> 25 steps"),
              std::string::npos)
        << comparison.verdict;
}

TEST_F(Comparing, EqualPairsDoNotAlarm) {
    const std::vector<MadeUpTraining> plans = {
        {},
        {.steps = 200},
        {.steps = 60},
        {.noise = 0.2},
        {.lasting = 0.97},
        {.noise = 0.15, .lasting = 0.95},
        {.workers = 1},
        {.prefetch = 2, .stalls = 0.02},
        {.steps = 400, .noise = 0.1, .lasting = 0.99},
        {.checkpoint_every = 100, .evaluate_every = 1, .between_runs = 0.01},
    };
    for (std::size_t i = 0; i < plans.size(); ++i) {
        MadeUpTraining a = plans[i];
        a.seed = static_cast<unsigned>(1000 + 2 * i);
        MadeUpTraining b = a;
        ++b.seed;
        const Comparison comparison = compare_runs(a, b);
        EXPECT_EQ(comparison.outcome, Outcome::same) << i << ": " << comparison.verdict;
        EXPECT_FALSE(fails(comparison, 0)) << i;
        EXPECT_TRUE(comparison.causes.empty()) << i;
    }
}

// An interval of 95 % may miss 1 in one pair of twenty, and of runs that differ by 1 % less often.
TEST(ComparisonNoise, FewOfManyEqualPairsAlarm) {
    int alarms = 0;
    constexpr int kPairs = 100;
    for (unsigned i = 0; i < kPairs; ++i) {
        MadeUpTraining plan{.steps = 150 + 10 * static_cast<int>(i % 30),
                            .noise = 0.05 + 0.02 * (i % 5),
                            .lasting = i % 3 == 0 ? 0.98 : 0.7,
                            .between_runs = 0.01};
        plan.seed = 2 * i + 1;
        const RankRecords a = TrainingModel(plan).run();
        ++plan.seed;
        const Comparison comparison = compare({.ranks = {a}}, {.ranks = {TrainingModel(plan).run()}});
        alarms += comparison.outcome == Outcome::same ? 0 : 1;
    }
    EXPECT_LE(alarms, kPairs / 20);
    RecordProperty("alarms", alarms);
}

// A change of 10 % is far beyond the noise of a long run.
TEST_F(Comparing, ASmallChangeIsFound) {
    const Comparison comparison = compare_runs({}, {.torch = "2.12.0", .step_factor = 1.1, .seed = 2});
    EXPECT_EQ(comparison.outcome, Outcome::slower) << comparison.verdict;
    EXPECT_NEAR(comparison.ratio.expected, 1.095, 0.02);
    EXPECT_TRUE(fails(comparison, 0.05)) << comparison.verdict;
    EXPECT_FALSE(fails(comparison, 0.10)) << comparison.verdict;
}

TEST_F(Comparing, StepsOfOtherSizesAreComparedBySample) {
    const Comparison comparison = compare_runs({}, {.batch = 16, .steps_per_epoch = 400, .seed = 2});
    EXPECT_TRUE(comparison.per_sample);
    EXPECT_LT(comparison.step_ratio.high, 1) << "a step of a quarter of the samples is shorter";
    EXPECT_GT(comparison.ratio.low, 1) << "and a sample takes longer";
    EXPECT_NEAR(comparison.sample_ratio->expected, 4 * comparison.step_ratio.expected, 1e-9);
}

TEST_F(Comparing, TheIntervalHoldsWhatOthersMayHaveTaken) {
    const Comparison comparison = compare_runs({}, {.others = 0.7, .seed = 2});
    EXPECT_GT(comparison.ratio.expected, 1.5);
    EXPECT_LT(comparison.ratio.low, 1) << "the program may be as fast on an idle machine";
    EXPECT_FALSE(fails(comparison, 0.05));
}

TEST_F(Comparing, RulesThatFireInOneAloneAreNamed) {
    const Comparison comparison = compare_runs({}, {.workers = 1, .seed = 2});
    ASSERT_EQ(comparison.new_findings.size(), 1U);
    EXPECT_EQ(comparison.new_findings[0].rule, "few-workers");
    EXPECT_TRUE(comparison.gone_findings.empty());
}

TEST_F(Comparing, EveryFactThatDiffersIsListedOnce) {
    const Comparison comparison = compare_runs({}, {.workers = 2, .batch = 32, .precision = "fp32", .seed = 2});
    std::vector<std::string> keys;
    for (const RankedDifference& ranked : comparison.differences) {
        keys.push_back(ranked.difference.key);
    }
    for (const char* const key : {"data.workers", "train.batch_size", "train.precision"}) {
        EXPECT_EQ(std::ranges::count(keys, key), 1) << key;
    }
    EXPECT_EQ(std::ranges::count(keys, "data.batch_size"), 0) << "the recipe's name of train.batch_size";
}

TEST(ComparisonOf, RunsWithoutStepsHaveNoInterval) {
    const RunRecords empty{.ranks = {RankRecords{}}};
    const Comparison none = compare(empty, empty);
    EXPECT_EQ(none.outcome, Outcome::unclear);
    EXPECT_EQ(none.verdict, "A lacks steps to judge.");
    EXPECT_TRUE(nlohmann::json::parse(to_json(none, 0.05))["ratio"]["low"].is_null());
    EXPECT_FALSE(fails(none, 0));

    RankRecords one;
    one.steps = {StepEntry{.step = 1}};
    one.steps[0].host.times[0] = std::chrono::milliseconds(3);
    const Comparison few = compare({.kind = "trace", .ranks = {one}}, {.kind = "trace", .ranks = {one}});
    EXPECT_EQ(few.outcome, Outcome::unclear);
    EXPECT_DOUBLE_EQ(few.ratio.expected, 1);
}

TEST(ComparisonOf, AShortRunIsNotBlamedForMissingEvaluations) {
    MadeUpTraining plan{.evaluate_every = 4};
    const RankRecords a = TrainingModel(plan).run();
    plan.steps = 300;  // before the first evaluation
    plan.seed = 2;
    const Comparison comparison = compare({.ranks = {a}}, {.ranks = {TrainingModel(plan).run()}});
    EXPECT_EQ(comparison.outcome, Outcome::same) << comparison.verdict;
    EXPECT_TRUE(std::ranges::any_of(comparison.notes, [](const std::string& note) {
        return note.find("evaluations: they are left out of both") != std::string::npos;
    }));
}

// A trace separates the passes, and a run with a CUDA graph does not.
TEST(ComparisonOf, PassesThatOneJoinsAreJoinedInBoth) {
    const RankRecords apart = TrainingModel({}).run();
    RankRecords joined = apart;
    for (StepEntry& step : joined.steps) {
        for (const Phase part : {Phase::forward, Phase::backward, Phase::optimizer}) {
            step.host.times[static_cast<std::size_t>(Phase::step)] +=
                std::exchange(step.host.times[static_cast<std::size_t>(part)], {});
        }
    }
    const Comparison comparison = compare({.ranks = {apart}}, {.ranks = {joined}});
    for (const PhaseChange& change : comparison.phases) {
        EXPECT_NE(change.phase, Phase::forward);
        EXPECT_NEAR(change.a, change.b, 1e-12) << phase_name(change.phase);
    }
}

TEST_F(Comparing, TheDocumentHasStableKeys) {
    const Comparison comparison = compare_runs({}, {.workers = 1, .seed = 2});
    const auto json = nlohmann::json::parse(to_json(comparison, 0.05));
    EXPECT_EQ(json["kind"], "comparison");
    EXPECT_EQ(json["verdict"]["outcome"], "slower");
    EXPECT_EQ(json["verdict"]["text"], comparison.verdict);
    EXPECT_EQ(json["unit"], "step");
    EXPECT_EQ(json["causes"], nlohmann::json({"data.workers"}));
    EXPECT_EQ(json["differences"][0]["key"], "data.workers");
    EXPECT_EQ(json["differences"][0]["a"], "4");
    EXPECT_EQ(json["differences"][0]["phases"], nlohmann::json({"wait"}));
    EXPECT_EQ(json["fail_above"], 0.05);
    EXPECT_EQ(json["failed"], true);
    EXPECT_EQ(json["rules"]["new"][0]["rule"], "few-workers");
    EXPECT_EQ(json["a"]["samples_per_step"], 64);
    EXPECT_NEAR(json["b"]["seconds_per_step"].get<double>() / json["a"]["seconds_per_step"].get<double>(),
                json["ratio"]["expected"].get<double>(), 1e-9);
    double change = 0;
    for (const auto& phase : json["phases"]) {
        change += phase["change"]["expected"].get<double>();
    }
    EXPECT_NEAR(change, json["b"]["seconds_per_step"].get<double>() - json["a"]["seconds_per_step"].get<double>(), 1e-9)
        << "phases sum to the whole";
}

}  // namespace
}  // namespace stoker
