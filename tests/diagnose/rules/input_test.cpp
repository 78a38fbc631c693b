// Why the trainer waits: each cause is named where its evidence is there, and not in the near miss.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::map<Phase, double> kWaiting = {{Phase::wait, 0.5}, {Phase::forward, 0.5}};
const std::map<Stage, double> kDecoding = {{Stage::read, 0.05}, {Stage::entropy, 0.5}, {Stage::pixels, 0.4}};

TEST(InputRules, ARunThatDoesNotWaitIsHealthy) {
    const MadeUpRun run{.share = {{Phase::wait, 0.04}, {Phase::forward, 0.96}}, .stages = kDecoding, .workers = 1};
    EXPECT_THAT(rules_above_info(diagnose_rank(run.rank())), IsEmpty());
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "healthy");
}

TEST(InputRules, NoWorkers) {
    const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = 0};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "no-workers");
    const Finding& finding = diagnosis.findings.front();
    EXPECT_EQ(finding.severity, Severity::critical);
    EXPECT_THAT(finding.fix.recipe, ElementsAre(RecipeChange{"data.workers", "2"}));
    // Half of the time is saved at best, because one of two cores is busy all the time.
    EXPECT_NEAR(finding.gain.high, 2.0, 0.05);
}

TEST(InputRules, FewWorkersWhileACoreIsFree) {
    const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = 1, .process_cores = 1.4, .busy_share = 0.7};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "few-workers");
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.workers", "2"}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.7, 0.01);
}

TEST(InputRules, MoreWorkersAreNotAdvisedWhereAllCoresAreBusy) {
    const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = 2, .process_cores = 2, .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_THAT(rules_above_info(diagnosis), ElementsAre("decode-bound"));
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("more workers will not help"));
    EXPECT_THAT(diagnosis.findings.front().fix.code, HasSubstr("--codec dct"));
}

TEST(InputRules, StorageIsSlowWhereReadsUseNoCore) {
    const MadeUpRun run{.share = kWaiting,
                        .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}},
                        .worker_cpu = 0.1,
                        .process_cores = 0.6,
                        .busy_share = 0.3};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "storage-bound");
    EXPECT_EQ(diagnosis.findings.front().fix.recipe.front().key, "data.cache");
}

TEST(InputRules, ReadsThatKeepACoreBusyAreNotTheStorage) {
    const MadeUpRun run{
        .share = kWaiting, .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}}, .process_cores = 2, .busy_share = 1};
    EXPECT_NE(diagnose_rank(run.rank()).verdict.rule, "storage-bound");
}

TEST(InputRules, ReadsFromTheMemoryOfTheCacheAreNotTheStorage) {
    const MadeUpRun run{.share = kWaiting, .stages = {{Stage::read, 0.9}, {Stage::pixels, 0.1}}, .busy_share = 0.6};
    EXPECT_NE(diagnose_rank(run.rank()).verdict.rule, "storage-bound");
}

TEST(InputRules, AGpuThatNeverIdlesIsNotStarved) {
    // The host ran ahead, waited for batches, and then for the GPU.
    RankRecords rank =
        MadeUpRun{
            .share = {{Phase::wait, 0.45}, {Phase::step, 0.05}, {Phase::sync, 0.5}}, .stages = kDecoding, .workers = 1}
            .rank();
    rank.facts.device.type = "cuda";
    EXPECT_THAT(rules_above_info(diagnose_rank(rank)), IsEmpty());
}

TEST(InputRules, AQuotaBoundsTheCores) {
    // Two cores of 64 are granted, and both are used.
    RankRecords rank =
        MadeUpRun{.share = kWaiting, .stages = kDecoding, .workers = 1, .process_cores = 2, .busy_share = 0.03}.rank();
    rank.facts.host.affinity = 64;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "decode-bound");
    EXPECT_THAT(diagnose_rank(rank).verdict.text, HasSubstr("more workers will not help"));
}

TEST(InputRules, AugmentationIsNamedWhereItTakesMost) {
    const MadeUpRun run{.share = kWaiting,
                        .stages = {{Stage::read, 0.05}, {Stage::pixels, 0.2}, {Stage::augment, 0.75}},
                        .process_cores = 2,
                        .busy_share = 1};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "augment-bound");
}

TEST(InputRules, AShortQueueIsNamedWhereWorkersAreIdle) {
    const MadeUpRun run{.share = kWaiting, .stages = {{Stage::pixels, 0.3}}, .prefetch = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "no-prefetch");
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.prefetch", "4"}));
    const MadeUpRun longer{.share = kWaiting, .stages = {{Stage::pixels, 0.3}}, .prefetch = 4};
    EXPECT_NE(diagnose_rank(longer.rank()).verdict.rule, "no-prefetch");
}

TEST(InputRules, AColdFirstEpochIsMentioned) {
    RankRecords rank = MadeUpRun{.share = kWaiting, .workers = 2}.rank();
    for (StepEntry& step : rank.steps) {
        step.epoch = step.step <= 500 ? 1 : 2;
        if (step.epoch == 2) {
            step.host.times[static_cast<std::size_t>(Phase::wait)] /= 10;
        }
    }
    const Diagnosis diagnosis = diagnose_rank(rank);
    const auto found =
        std::ranges::find_if(diagnosis.findings, [](const Finding& f) { return f.rule == "cold-cache"; });
    ASSERT_NE(found, diagnosis.findings.end());
    EXPECT_EQ(found->severity, Severity::info);
}

TEST(InputRules, GainsAreOrdered) {
    for (const int workers : {0, 1, 2}) {
        const MadeUpRun run{.share = kWaiting, .stages = kDecoding, .workers = workers, .process_cores = 1.2};
        for (const Finding& finding : diagnose_rank(run.rank()).findings) {
            EXPECT_LE(finding.gain.low, finding.gain.expected) << finding.rule;
            EXPECT_LE(finding.gain.expected, finding.gain.high) << finding.rule;
            EXPECT_GE(finding.gain.low, 1) << finding.rule;
        }
    }
}

}  // namespace
}  // namespace stoker
