// Whether more workers are advised: the cores must have room for them, and they must gain more than another cure.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::map<Phase, double> kHalfWaiting = {{Phase::wait, 0.5}, {Phase::forward, 0.5}};
const std::map<Stage, double> kMostlyDecoding = {{Stage::read, 0.05}, {Stage::entropy, 0.5}, {Stage::pixels, 0.4}};

TEST(FewWorkers, AreNamedWhileACoreIsFree) {
    const MadeUpRun run{
        .share = kHalfWaiting, .stages = kMostlyDecoding, .workers = 1, .process_cores = 1.4, .busy_share = 0.7};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "few-workers");
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.workers", "2"}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.7, 0.01);
    RankRecords unknown = run.rank();
    unknown.facts.data.workers.reset();
    EXPECT_EQ(diagnose_rank(unknown).verdict.rule, "decode-bound") << "their number is not known";
}

TEST(FewWorkers, MoreWorkersAreNotAdvisedWhereAllCoresAreBusy) {
    const MadeUpRun run{
        .share = kHalfWaiting, .stages = kMostlyDecoding, .workers = 2, .process_cores = 2, .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_THAT(rules_above_info(diagnosis), ElementsAre("decode-bound"));
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("more workers will not help"));
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("--codec dct"));
}

// The default of 16 cores is 15 workers: another one gains little, however fast the cores are.
TEST(FewWorkers, OneMoreWorkerOfManyIsNoCause) {
    for (const double busy : {0.8, 0.93}) {
        MadeUpRun run{.share = kHalfWaiting, .stages = kMostlyDecoding, .workers = 15, .cores = 16, .busy_share = busy};
        run.process_cores = 16 * busy;
        EXPECT_THAT(rules_above_info(diagnose_rank(run.rank())), ElementsAre("decode-bound")) << busy;
        run.workers = 12;
        EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, busy < 0.9 ? "few-workers" : "decode-bound") << busy;
    }
}

TEST(FewWorkers, OneMoreWorkerIsNamedWhereNoStageIs) {
    const std::map<Stage, double> mixed = {{Stage::read, 0.35}, {Stage::pixels, 0.33}, {Stage::augment, 0.32}};
    const MadeUpRun run{
        .share = kHalfWaiting, .stages = mixed, .workers = 7, .cores = 8, .process_cores = 7, .busy_share = 0.8};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "few-workers");
    EXPECT_LT(diagnosis.findings.front().gain.expected, 8.0 / 7);
}

// Of 16 cores one is free: the gain is bounded by it, not by four more workers.
TEST(FewWorkers, GainWhatTheFreeCoresAllow) {
    const std::map<Stage, double> mixed = {{Stage::read, 0.35}, {Stage::pixels, 0.33}, {Stage::augment, 0.32}};
    const MadeUpRun run{
        .share = kHalfWaiting, .stages = mixed, .workers = 12, .cores = 16, .process_cores = 12, .busy_share = 0.93};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "few-workers");
    EXPECT_LT(diagnosis.findings.front().gain.expected, 1.15);
}

TEST(FewWorkers, AreNotNamedByDamagedRecords) {
    RankRecords rank = MadeUpRun{.share = kHalfWaiting, .stages = kMostlyDecoding}.rank();
    rank.facts.data.workers = -1;
    EXPECT_NE(diagnose_rank(rank).verdict.rule, "few-workers");
    rank.facts.data.workers = 1;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "few-workers");
    rank.facts.host.cores.reset();
    EXPECT_NE(diagnose_rank(rank).verdict.rule, "few-workers");
}

}  // namespace
}  // namespace stoker
