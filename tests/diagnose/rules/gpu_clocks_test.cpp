// A GPU whose clock heat or a fault holds back.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

RankRecords gpu_with(const char* limit, double clock, const MadeUpRun& run = {}, std::size_t intervals = 10) {
    RankRecords rank = run.rank();
    rank.facts.device.type = "cuda";
    for (std::size_t i = 0; i < rank.intervals.size(); ++i) {
        IntervalEntry& interval = rank.intervals[i];
        interval.gpu_celsius = 60;
        interval.gpu_clock_share = 0.97;
        if (i < intervals) {
            interval.gpu_celsius = 88;
            interval.gpu_clock_share = clock;
            interval.gpu_clock_limit = limit;
        }
    }
    return rank;
}

TEST(GpuClocks, HeatHoldsTheClockBack) {
    const Diagnosis diagnosis = diagnose_rank(gpu_with("power limit, temperature", 0.6));
    EXPECT_EQ(diagnosis.verdict.rule, "gpu-throttled");
    EXPECT_THAT(diagnosis.verdict.text,
                HasSubstr("60 % of its maximum in 100 % of the time, by: power limit, temperature (88 C)"));
    EXPECT_EQ(diagnosis.findings.front().severity, Severity::critical);
    EXPECT_NEAR(diagnosis.findings.front().gain.high, 1 / 0.6, 0.01);
    EXPECT_NEAR(diagnosis.findings.front().gain.low, 1 / (1 - 0.2 * 0.4), 0.01);
    const Diagnosis part = diagnose_rank(gpu_with("temperature", 0.6, {}, 3));
    EXPECT_EQ(part.findings.front().severity, Severity::warn);
    EXPECT_NEAR(part.findings.front().gain.high, 1 / (1 - 0.3 * 0.4), 0.01);
}

TEST(GpuClocks, NearMisses) {
    EXPECT_EQ(diagnose_rank(gpu_with("power limit", 0.6)).verdict.rule, "healthy") << "it takes all the power it may";
    EXPECT_EQ(diagnose_rank(gpu_with("", 0.6)).verdict.rule, "healthy") << "a clock that a user has set";
    EXPECT_EQ(diagnose_rank(gpu_with("temperature", 0.9)).verdict.rule, "healthy");
    EXPECT_EQ(diagnose_rank(gpu_with("temperature", 0.6, {}, 1)).verdict.rule, "healthy") << "one reading of ten";
    RankRecords cpu = gpu_with("temperature", 0.6);
    cpu.facts.device.type = "cpu";
    EXPECT_EQ(diagnose_rank(cpu).verdict.rule, "healthy");
}

TEST(GpuClocks, AGpuThatWaitsForBatchesLosesLittle) {
    const MadeUpRun waits{.share = {{Phase::wait, 0.9}, {Phase::step, 0.1}}};
    const auto found = found_in({.ranks = {gpu_with("temperature", 0.6, waits)}}, "gpu-throttled");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->severity, Severity::info) << "no verdict";
}

}  // namespace
}  // namespace stoker
