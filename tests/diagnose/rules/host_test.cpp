// The host's share in a slow run.
#include <gmock/gmock.h>

#include <functional>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankRecords with(const MadeUpRun& run, const std::function<void(IntervalEntry&)>& change) {
    RankRecords rank = run.rank();
    std::ranges::for_each(rank.intervals, change);
    return rank;
}

TEST(HostRules, ManyWorkersOnFewCores) {
    const MadeUpRun run{.workers = 16, .process_cores = 2, .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    ASSERT_EQ(diagnosis.findings.size(), 1U);
    EXPECT_EQ(diagnosis.findings.front().rule, "many-workers");
    EXPECT_EQ(diagnosis.verdict.rule, "healthy") << "it costs next to nothing";
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"data.workers", "2"}));
    const MadeUpRun idle{.workers = 16, .process_cores = 1, .busy_share = 0.5};
    EXPECT_THAT(diagnose_rank(idle.rank()).findings, IsEmpty());
}

TEST(HostRules, OtherProcessesTakeTheCores) {
    const MadeUpRun run{.process_cores = 0.8, .busy_share = 1};
    EXPECT_EQ(diagnose_rank(run.rank()).verdict.rule, "other-processes");
    const MadeUpRun alone{.process_cores = 2, .busy_share = 1};
    EXPECT_EQ(diagnose_rank(alone.rank()).verdict.rule, "healthy");
}

TEST(HostRules, ThreadsThatWaitForEachOther) {
    const MadeUpRun run{.process_cores = 0.8, .busy_share = 1};
    RankRecords rank = run.rank();
    rank.facts.train.threads = 2;
    rank.facts.train.thread_speedup = 0.1;
    const Diagnosis diagnosis = diagnose_rank(rank);
    EXPECT_EQ(diagnosis.verdict.rule, "oversubscription");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("Torch's 2 threads wait"));
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("10 times as long"));
    EXPECT_EQ(diagnosis.findings.front().severity, Severity::critical);
    EXPECT_EQ(diagnosis.findings.front().gain.low, 1);
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / (1 - 0.9), 0.01);
    ASSERT_EQ(diagnosis.findings.size(), 2U);
    EXPECT_EQ(diagnosis.findings.back().rule, "other-processes");
    EXPECT_EQ(diagnosis.findings.back().severity, Severity::info) << "the program can do something about it";
    rank.facts.train.thread_speedup = 0;  // of a damaged file
    EXPECT_LE(diagnose_rank(rank).findings.front().gain.high, 100.1);
    rank.facts.train.thread_speedup = 0.9;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "other-processes");
    rank.facts.train.thread_speedup = 0.1;
    rank.facts.train.threads = 1;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "other-processes");
}

TEST(HostRules, AQuotaThatStopsTheProcess) {
    const auto rank = with({}, [](IntervalEntry& interval) { interval.throttled_share = 0.4; });
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "cpu-throttled");
    const auto seldom = with({}, [](IntervalEntry& interval) { interval.throttled_share = 0.02; });
    EXPECT_EQ(diagnose_rank(seldom).verdict.rule, "healthy");
}

TEST(HostRules, AHypervisorThatTakesTime) {
    const auto rank = with({}, [](IntervalEntry& interval) { interval.steal_share = 0.3; });
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "cpu-steal");
}

TEST(HostRules, ATypeThatTheProcessorEmulates) {
    RankRecords rank =
        MadeUpRun{.share = {{Phase::forward, 0.3}, {Phase::backward, 0.6}, {Phase::optimizer, 0.1}}}.rank();
    rank.facts.train.precision = "bf16";
    rank.facts.device.half_speedup = 0.1;
    const Diagnosis diagnosis = diagnose_rank(rank);
    EXPECT_EQ(diagnosis.verdict.rule, "slow-precision");
    EXPECT_THAT(diagnosis.findings.front().fix.recipe, ElementsAre(RecipeChange{"train.precision", "\"fp32\""}));
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / (1 - 0.81), 0.01) << "all but 0.09 of forward and backward";
    rank.facts.device.half_speedup = 0.9;
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "healthy");
    RankRecords waiting = MadeUpRun{.share = {{Phase::wait, 0.97}, {Phase::forward, 0.03}}}.rank();
    waiting.facts.device.half_speedup = 0.1;
    EXPECT_NE(diagnose_rank(waiting).verdict.rule, "slow-precision") << "the passes take no time";
}

TEST(HostRules, MemoryPressure) {
    const auto near = with({}, [](IntervalEntry& interval) { interval.rss_bytes = std::int64_t{7800} << 20; });
    EXPECT_EQ(diagnose_rank(near).verdict.rule, "memory-pressure");
    const auto swapping = with({}, [](IntervalEntry& interval) {
        interval.rss_bytes = std::int64_t{6} << 30;
        interval.swap_in_bytes_per_second = 5e6;
    });
    EXPECT_EQ(diagnose_rank(swapping).verdict.rule, "memory-pressure");
    EXPECT_EQ(diagnose_rank(swapping).findings.front().severity, Severity::critical);
    const auto others = with({}, [](IntervalEntry& interval) { interval.swap_in_bytes_per_second = 5e6; });
    EXPECT_EQ(diagnose_rank(others).verdict.rule, "healthy") << "other programs' pages";
    const auto half = with({}, [](IntervalEntry& interval) { interval.rss_bytes = std::int64_t{4} << 30; });
    EXPECT_EQ(diagnose_rank(half).verdict.rule, "healthy");
}

TEST(HostRules, AGpuThatIsBusyLosesNothingToTheHost) {
    RankRecords rank = MadeUpRun{.process_cores = 0.2, .busy_share = 1}.rank();
    rank.facts.device.type = "cuda";
    for (IntervalEntry& interval : rank.intervals) {
        interval.steal_share = 0.5;
        interval.throttled_share = 0.5;
    }
    const Diagnosis busy = diagnose_rank(rank);
    EXPECT_EQ(busy.verdict.rule, "healthy");
    for (const Finding& finding : busy.findings) {
        EXPECT_EQ(finding.severity, Severity::info) << finding.rule;
        EXPECT_EQ(finding.gain.high, 1) << finding.rule;
    }
    RankRecords waits =
        MadeUpRun{.share = {{Phase::wait, 0.3}, {Phase::step, 0.7}}, .process_cores = 0.2, .busy_share = 1}.rank();
    waits.facts.device.type = "cuda";
    EXPECT_EQ(diagnose_rank(waits).verdict.rule, "other-processes");
    EXPECT_NEAR(diagnose_rank(waits).findings.front().gain.high, 1 / 0.7, 1e-6);
}

TEST(HostRules, TheVerdictNamesWhatTheProgramCanDoToo) {
    const MadeUpRun run{
        .share = {{Phase::forward, 0.7}, {Phase::checkpoint, 0.3}}, .process_cores = 0.5, .busy_share = 1};
    const Diagnosis diagnosis = diagnose_rank(run.rank());
    EXPECT_EQ(diagnosis.verdict.rule, "other-processes");
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr(" Apart from that: "));
    EXPECT_THAT(diagnosis.verdict.text, HasSubstr("checkpoints take 30 % of the time"));
}

TEST(HostRules, LessMemoryIsAskedOfWhatTheRunUses) {
    RankRecords rank = with({}, [](IntervalEntry& interval) { interval.rss_bytes = std::int64_t{7800} << 20; });
    rank.facts.data.cache = "none";
    rank.facts.data.prefetch = 8;
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe, ElementsAre(RecipeChange{"data.prefetch", "3"}));
    rank.facts.data.cache = "ram";
    rank.facts.data.prefetch = 3;
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe, ElementsAre(RecipeChange{"data.cache", "\"none\""}));
    rank.facts.data.cache = "none";
    rank.facts.train.accumulate = 4;
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe, ElementsAre(RecipeChange{"train.accumulate", "8"}));
    rank.facts.device.type = "cuda";
    EXPECT_THAT(diagnose_rank(rank).findings.front().fix.recipe, IsEmpty()) << "the host holds whole batches";
}

}  // namespace
}  // namespace stoker
