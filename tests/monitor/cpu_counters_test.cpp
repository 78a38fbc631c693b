// The processors' counters in made-up texts of several kernels.
#include "stoker/monitor/cpu_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/support.h"

namespace stoker {
namespace {

TEST(CpuCounters, CoresAreReadWithoutTheirSum) {
    const auto cores = parse_cpu_times(
        "cpu  60 6 30 200 10 1 2 4 0 0\n"
        "cpu0 50 5 20 100 7 1 2 3 9 9\n"
        "cpu3 10 1 10 100 3 0 0 1 0 0\n"
        "intr 12 34\ncpu7 1 1 1 1\n");
    ASSERT_EQ(cores.size(), 2);
    EXPECT_EQ(cores[0].core, 0);
    EXPECT_EQ(cores[0].times.user, 55);
    EXPECT_EQ(cores[0].times.system, 23);
    EXPECT_EQ(cores[0].times.idle, 100);
    EXPECT_EQ(cores[0].times.iowait, 7);
    EXPECT_EQ(cores[0].times.steal, 3);
    EXPECT_EQ(cores[0].times.total(), 188);
    EXPECT_EQ(cores[1].core, 3);
}

TEST(CpuCounters, ShortAndForeignLinesAreSurvived) {
    EXPECT_TRUE(parse_cpu_times("").empty());
    EXPECT_TRUE(parse_cpu_times("cpu 1 2 3").empty());
    EXPECT_TRUE(parse_cpu_times("cpufreq 1\n").empty());
    EXPECT_TRUE(parse_cpu_times("cpu-1 5 5\n").empty());
    const auto old = parse_cpu_times("cpu0 1 2 3 4\n");
    ASSERT_EQ(old.size(), 1);
    EXPECT_EQ(old[0].times.total(), 10);
    EXPECT_EQ(parse_cpu_times("cpu0 x y z 4")[0].times.total(), 4);
}

TEST(CpuCounters, SharesAreOfTheTimeThatPassed) {
    const CpuTimes before{.user = 100, .system = 50, .idle = 1000, .iowait = 20, .steal = 0};
    const CpuTimes after{.user = 150, .system = 60, .idle = 1020, .iowait = 30, .steal = 10};
    const auto shares = cpu_shares(before, after);
    ASSERT_TRUE(shares);
    EXPECT_DOUBLE_EQ(shares->user, 0.5);
    EXPECT_DOUBLE_EQ(shares->system, 0.1);
    EXPECT_DOUBLE_EQ(shares->iowait, 0.1);
    EXPECT_DOUBLE_EQ(shares->steal, 0.1);
    EXPECT_DOUBLE_EQ(shares->busy(), 0.6);
    EXPECT_FALSE(cpu_shares(after, after));
    EXPECT_EQ(cpu_shares({.idle = 0, .iowait = 9}, {.idle = 10, .iowait = 5})->iowait, 0);  // it fell
}

TEST(CpuCounters, LoadAndPressure) {
    EXPECT_DOUBLE_EQ(parse_load("4.03 3.09 2.46 5/96 12083\n")->five, 3.09);
    EXPECT_FALSE(parse_load("4.03 x"));
    EXPECT_FALSE(parse_load(""));
    const auto io = parse_pressure(
        "some avg10=12.50 avg60=9.00 avg300=1.00 total=7500\n"
        "full avg10=2.00 avg60=1.00 avg300=0.10 total=300\n");
    ASSERT_TRUE(io);
    EXPECT_DOUBLE_EQ(io->some_10s, 0.125);
    EXPECT_EQ(io->some_us, 7500);
    EXPECT_DOUBLE_EQ(*io->full_10s, 0.02);
    EXPECT_EQ(io->full_us, 300);
    const auto cpu = parse_pressure("some avg10=1.00 avg60=0.00 avg300=0.00 total=11129532459\n");
    ASSERT_TRUE(cpu);
    EXPECT_EQ(cpu->some_us, 11129532459);
    EXPECT_FALSE(cpu->full_10s || cpu->full_us);
    for (const char* text : {"", "some", "some avg10=x total=1", "full avg10=1 total=1"}) {
        EXPECT_FALSE(parse_pressure(text)) << text;
    }
}

TEST(CpuCounters, ThrottlingOfBothVersionsOfCgroups) {
    const auto v2 = parse_throttling("usage_usec 5\nnr_periods 100\nnr_throttled 25\nthrottled_usec 700000\n");
    ASSERT_TRUE(v2);
    EXPECT_EQ(v2->throttled_periods, 25);
    EXPECT_EQ(v2->throttled_us, 700'000);
    const auto v1 = parse_throttling("nr_periods 100\nnr_throttled 25\nthrottled_time 700000000\n");
    ASSERT_TRUE(v1);
    EXPECT_EQ(v1->throttled_us, 700'000);
    EXPECT_FALSE(parse_throttling("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"));  // no quota
    EXPECT_FALSE(parse_throttling("usage_usec 5\n"));
    EXPECT_FALSE(parse_throttling(""));
}

TEST(CpuCounters, AllGroupsWithAQuotaAreRead) {
    const testing::MadeUpTree tree;
    EXPECT_TRUE(read_throttling(tree.root()).empty());
    tree.write("proc/self/cgroup", "4:cpu,cpuacct:/job/step\n0::/job/step\n");
    tree.write("sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 1000000\n");
    ASSERT_EQ(read_throttling(tree.root()).size(), 1);
    EXPECT_EQ(read_throttling(tree.root())[0].counts.periods, 9);
    tree.write("sys/fs/cgroup/job/step/cpu.stat", "nr_periods 8\nnr_throttled 1\nthrottled_usec 5\n");
    tree.write("sys/fs/cgroup/job/cpu.stat", "nr_periods 7\nnr_throttled 2\nthrottled_usec 6\n");
    const auto groups = read_throttling(tree.root());
    ASSERT_EQ(groups.size(), 2);
    EXPECT_NE(groups[0].group, groups[1].group);
}

TEST(CpuCounters, AGroupIsComparedWithItself) {
    const testing::MadeUpTree tree;
    tree.write("proc/self/cgroup", "0::/job/step\n");
    const auto read = [&](const std::string& step, const std::string& job) {
        tree.write("sys/fs/cgroup/job/step/cpu.stat", step);
        tree.write("sys/fs/cgroup/job/cpu.stat", job);
        return read_throttling(tree.root());
    };
    // The step was stopped longest until now, and the job has counted for longer.
    const auto before = read("nr_periods 100\nnr_throttled 50\nthrottled_usec 900\n",
                             "nr_periods 1000\nnr_throttled 10\nthrottled_usec 800\n");
    const auto after = read("nr_periods 110\nnr_throttled 51\nthrottled_usec 910\n",
                            "nr_periods 1010\nnr_throttled 15\nthrottled_usec 2000\n");
    EXPECT_EQ(throttled_share(before, after), 0.5);
}

TEST(CpuCounters, TheThrottledShareIsOfPeriods) {
    const Throttling before{.periods = 100, .throttled_periods = 10, .throttled_us = 5};
    const Throttling after{.periods = 140, .throttled_periods = 20, .throttled_us = 9};
    EXPECT_EQ(throttled_share({{"a", before}}, {{"a", after}}), 0.25);
    EXPECT_EQ(throttled_share({{"a", after}}, {{"a", after}}), std::nullopt);
    EXPECT_EQ(throttled_share({{"a", before}}, {{"b", after}}), std::nullopt);
    EXPECT_EQ(throttled_share({}, {{"a", after}}), std::nullopt);
    EXPECT_EQ(throttled_share({{"a", before}}, {}), std::nullopt);
}

}  // namespace
}  // namespace stoker
