// The driver of the rules: order of findings, verdict, and the document.
#include "stoker/diagnose/diagnose.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace stoker {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

RunRecords records_with(Phase phase, microseconds time) {
    RankRecords rank;
    StepEntry step{.step = 1};
    step.host.times[static_cast<std::size_t>(phase)] = time;
    rank.steps.push_back(step);
    return {.ranks = {rank}};
}

TEST(Diagnose, RulesHaveDifferentNamesAndSayWhatTheyLookAt) {
    std::set<std::string_view> names;
    for (const Rule& rule : rules()) {
        EXPECT_TRUE(names.insert(rule.id).second) << rule.id;
        EXPECT_FALSE(rule.signal.empty()) << rule.id;
        EXPECT_FALSE(rule.prescription.empty()) << rule.id;
    }
}

TEST(Diagnose, AFewStepsAreNotJudged) {
    const Diagnosis nothing = diagnose({.ranks = {RankRecords{}}});
    EXPECT_EQ(nothing.verdict.rule, "too-short");
    EXPECT_TRUE(nothing.findings.empty());
    const Diagnosis one = diagnose(records_with(Phase::wait, microseconds(200000)));
    EXPECT_EQ(one.verdict.rule, "too-short");
    EXPECT_TRUE(std::ranges::all_of(one.findings, [](const Finding& f) { return f.severity == Severity::info; }));
}

// A profile of several processes whose training failed lacks steps.
TEST(Diagnose, AProfileWithoutStepsIsNotHealthy) {
    RankRecords rank;
    rank.profile.emplace();
    EXPECT_EQ(diagnose({.ranks = {rank}}).verdict.rule, "too-short");
    rank.steps.push_back({.step = 1});
    EXPECT_EQ(diagnose({.ranks = {rank}}).verdict.rule, "healthy");
}

TEST(Diagnose, TheDocumentHasTheAccountOfEachRank) {
    RunRecords records = records_with(Phase::forward, microseconds(30));
    records.ranks[0].steps[0].host.times[static_cast<std::size_t>(Phase::wait)] = microseconds(10);
    const json document = json::parse(to_json(records, diagnose(records)));
    EXPECT_EQ(document["kind"], "run");
    EXPECT_EQ(document["ranks"][0]["steps"], 1);
    EXPECT_DOUBLE_EQ(document["ranks"][0]["account"]["forward"], 0.75);
    EXPECT_DOUBLE_EQ(document["ranks"][0]["account"]["wait"], 0.25);
    EXPECT_TRUE(document["ranks"][0]["gpu"].is_null());
    EXPECT_TRUE(document["ranks"][0]["workers"].is_null()) << "they have no clocks";
    EXPECT_TRUE(document["ranks"][0]["evaluation"].is_null());
    EXPECT_TRUE(document["ranks"][0]["syncs"].empty());
}

TEST(Diagnose, TheDocumentHasWorkersEvaluationsAndWaits) {
    RunRecords records = records_with(Phase::forward, microseconds(30));
    RankRecords& rank = records.ranks[0];
    IntervalEntry interval{.first_step = 1, .last_step = 1, .seconds = 1, .workers = StageTimes{}};
    (*interval.workers)[Stage::read] = microseconds(30);
    (*interval.workers)[Stage::pixels] = microseconds(10);
    interval.syncs = {{.place = "train.py:9", .count = 3, .us = 5}, {.place = "train.py:12", .count = 1, .us = 50}};
    rank.intervals = {interval, interval};
    EvaluationEntry evaluation{.step = 1};
    evaluation.host.times[static_cast<std::size_t>(Phase::wait)] = microseconds(10);
    evaluation.host.times[static_cast<std::size_t>(Phase::forward)] = microseconds(30);
    rank.evaluations = {evaluation};
    const json ranks = json::parse(to_json(records, diagnose(records)))["ranks"];
    EXPECT_DOUBLE_EQ(ranks[0]["workers"]["read"], 0.75);
    EXPECT_DOUBLE_EQ(ranks[0]["evaluation"]["wait"], 0.25);
    ASSERT_EQ(ranks[0]["syncs"].size(), 2U);
    EXPECT_EQ(ranks[0]["syncs"][0]["place"], "train.py:12") << "the longest first";
    EXPECT_EQ(ranks[0]["syncs"][1]["count"], 6);
}

TEST(Diagnose, AFindingIsWrittenWithItsFixAndGain) {
    const Diagnosis diagnosis{
        .verdict = {.rule = "few-workers", .text = "t"},
        .findings = {{.rule = "few-workers",
                      .severity = Severity::warn,
                      .evidence = {{"wait_share", 0.5}},
                      .first_step = 1,
                      .last_step = 9,
                      .fix = {.recipe = {{"data.workers", "4"}, {"data.cache", "\"ram\""}}, .code = "num_workers=4"},
                      .gain = {1.1, 1.5, 2.0},
                      .confidence = 0.8}}};
    const json finding = json::parse(to_json(records_with(Phase::wait, microseconds(1)), diagnosis))["findings"][0];
    EXPECT_EQ(finding["severity"], "warn");
    EXPECT_EQ(finding["evidence"]["wait_share"], 0.5);
    EXPECT_EQ(finding["steps"], (json{1, 9}));
    EXPECT_EQ(finding["fix"]["recipe"], (json{{"data.workers", 4}, {"data.cache", "ram"}}));
    EXPECT_EQ(finding["gain"]["expected"], 1.5);
}

TEST(Diagnose, EqualFindingsOfSeveralRanksAreOne) {
    std::vector<RankRecords> ranks;
    for (int i = 0; i < 8; ++i) {
        RankRecords rank;
        rank.facts.rank = i;
        for (int step = 1; step <= 100; ++step) {
            StepEntry entry{.step = step};
            entry.host.times[static_cast<std::size_t>(Phase::wait)] = microseconds(i == 0 ? 0 : 5000 + 100 * i);
            entry.host.times[static_cast<std::size_t>(Phase::forward)] = microseconds(5000);
            rank.steps.push_back(entry);
        }
        ranks.push_back(rank);
    }
    const RunRecords records{.kind = "trace", .ranks = ranks};
    const Diagnosis diagnosis = diagnose(records);
    ASSERT_EQ(diagnosis.findings.size(), 1U);
    EXPECT_EQ(diagnosis.findings[0].rule, "input-bound");
    EXPECT_EQ(diagnosis.findings[0].rank, 7) << "the one with the worst figure";
    EXPECT_EQ(diagnosis.findings[0].ranks, (std::vector{1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(json::parse(to_json(records, diagnosis))["findings"][0]["ranks"].size(), 7U);
}

}  // namespace
}  // namespace stoker
