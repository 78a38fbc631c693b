// A loader that is too slow without a known reason, and waits that are not of this kind.
#include <gmock/gmock.h>

#include "diagnose/rules/support.h"

namespace stoker {
namespace {

// On two cores, threads of the step and workers take the cores from each other.
TEST(SlowLoader, AWaitForACoreIsNoSlowLoader) {
    const auto diagnosis = [](double busy_share, double core_wait_us) {
        RankRecords rank = MadeUpRun{.share = {{Phase::wait, 0.1}, {Phase::forward, 0.9}},
                                     .stages = {{Stage::read, 0.2}},
                                     .process_cores = 2 * busy_share,
                                     .busy_share = busy_share}
                               .rank();
        for (IntervalEntry& interval : rank.intervals) {
            interval.core_wait_us = core_wait_us;
        }
        return diagnose_rank(rank);
    };
    EXPECT_EQ(diagnosis(0.86, 5e4).verdict.rule, "slow-loader") << "a twentieth of the time";
    EXPECT_EQ(diagnosis(0.5, 2e5).verdict.rule, "slow-loader") << "there are free cores";
    const Diagnosis full = diagnosis(0.86, 2e5);
    EXPECT_EQ(full.verdict.rule, "healthy");
    EXPECT_THAT(full.findings.at(0).text, testing::HasSubstr("it has none for 20 % of its time"));
}

// The trainer waits although the workers are idle, and the queue is long enough: nothing explains it.
TEST(SlowLoader, OneStallIsNoSlowLoader) {
    RankRecords rank =
        MadeUpRun{.share = {{Phase::wait, 0.5}, {Phase::forward, 0.5}}, .stages = {{Stage::pixels, 0.2}}}.rank();
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "slow-loader");
    for (StepEntry& step : rank.steps) {
        PhaseTimes& times = step.host.times;
        std::chrono::nanoseconds& wait = times[static_cast<std::size_t>(Phase::wait)];
        const bool stalls = step.step > 700;  // of 1,000
        times[static_cast<std::size_t>(Phase::forward)] += stalls ? std::chrono::nanoseconds{0} : wait;
        wait = stalls ? wait : std::chrono::nanoseconds{0};
    }
    EXPECT_EQ(diagnose_rank(rank).verdict.rule, "healthy");
}

}  // namespace
}  // namespace stoker
