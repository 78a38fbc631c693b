// The counters of a training loop: made-up trees, and this machine's own while it works.
#include "stoker/monitor/host_counters.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <vector>

#include "monitor/support.h"

namespace stoker {
namespace {

int first_usable_core() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    int core = 0;
    while (!CPU_ISSET(core, &set)) {
        ++core;
    }
    return core;
}

TEST(HostCounters, AreReadFromFiveFiles) {
    const testing::MadeUpTree tree;
    tree.write("proc/self/io", "rchar: 5\nread_bytes: 4096\nwrite_bytes: 1\n");
    tree.write("proc/self/statm", "100 25 3 1 0 5 0\n");
    tree.write("proc/vmstat", "pswpin 3\npswpout 4\n");
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("sys/fs/cgroup/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_usec 7\n");
    // The second core is none that this process may use.
    tree.write("proc/stat", fmt::format("cpu 0 0 0 0\ncpu{} 1 1 1 5 2 0 0 3\ncpu{} 100 0 0 0\n", first_usable_core(),
                                        CPU_SETSIZE + 1));
    const HostCounters counters = read_host_counters(tree.root());
    EXPECT_EQ(counters.read_bytes, 4096);
    EXPECT_EQ(counters.rss_bytes, 22 * ::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(counters.swap_in_bytes, 3 * ::sysconf(_SC_PAGESIZE));
    ASSERT_TRUE(counters.throttling.size() == 1 && counters.cores);
    EXPECT_EQ(counters.throttling[0].counts.throttled_periods, 4);
    EXPECT_EQ(counters.cores->total(), 13);
    EXPECT_EQ(counters.cores->steal, 3);
}

TEST(HostCounters, WhatTheSystemDoesNotShowIsAbsent) {
    const HostCounters counters = read_host_counters(testing::MadeUpTree().root());
    EXPECT_FALSE(counters.read_bytes || counters.rss_bytes || counters.swap_in_bytes || counters.cores);
    EXPECT_TRUE(counters.throttling.empty());
    EXPECT_GT(counters.time_ns, 0);
    const HostRates none = rates(counters, read_host_counters("/nowhere"));
    EXPECT_GT(none.seconds, 0);
    EXPECT_FALSE(none.read_bytes || none.rss_bytes || none.swap_in_bytes || none.throttled || none.iowait ||
                 none.steal);
}

TEST(HostCounters, AThreadWaitsForACore) {
    const testing::MadeUpTree tree;
    EXPECT_EQ(thread_core_wait_ns(tree.root()), std::nullopt);
    tree.write("proc/thread-self/schedstat", "4000 70 12\n");
    EXPECT_EQ(thread_core_wait_ns(tree.root()), 70);
    tree.write("proc/thread-self/schedstat", "4000");
    EXPECT_EQ(thread_core_wait_ns(tree.root()), std::nullopt);
}

TEST(HostCounters, RatesAreDifferencesBySecond) {
    const HostCounters before{.time_ns = 0,
                              .user_seconds = 1,
                              .system_seconds = 2,
                              .major_faults = 10,
                              .read_bytes = 1000,
                              .rss_bytes = 70,
                              .cores = CpuTimes{.user = 10},
                              .throttling = {{"a", {.periods = 10, .throttled_periods = 0, .throttled_us = 0}}},
                              .swap_in_bytes = 50};
    const HostCounters after{.time_ns = 2'000'000'000,
                             .user_seconds = 4,
                             .system_seconds = 3,
                             .major_faults = 14,
                             .read_bytes = 5000,
                             .rss_bytes = 80,
                             .cores = CpuTimes{.user = 60, .idle = 30, .iowait = 15, .steal = 5},
                             .throttling = {{"a", {.periods = 30, .throttled_periods = 5, .throttled_us = 9}}},
                             .swap_in_bytes = 150};
    const HostRates between = rates(before, after);
    EXPECT_DOUBLE_EQ(between.seconds, 2);
    EXPECT_DOUBLE_EQ(between.user_cores, 1.5);
    EXPECT_DOUBLE_EQ(between.system_cores, 0.5);
    EXPECT_DOUBLE_EQ(between.major_faults, 2);
    EXPECT_EQ(between.read_bytes, 2000);
    EXPECT_EQ(between.rss_bytes, 80);
    EXPECT_EQ(between.iowait, 0.15);
    EXPECT_EQ(between.steal, 0.05);
    EXPECT_EQ(between.throttled, 0.25);
    EXPECT_EQ(between.swap_in_bytes, 50);
    const HostRates none = rates(after, after);
    EXPECT_EQ(none.seconds, 0);
    EXPECT_EQ(none.user_cores, 0);
    EXPECT_FALSE(none.read_bytes || none.iowait || none.throttled);
}

TEST(HostCounters, ThisProcessIsSeenAtWork) {
    if (!std::ifstream("/proc/self/statm")) {
        GTEST_SKIP() << "needs /proc";
    }
    const HostCounters before = read_host_counters();
    const std::vector<char> memory(64 << 20, 1);  // written, so resident
    const auto begin = std::clock();              // CPU time: other work may share the core
    while (std::clock() - begin < CLOCKS_PER_SEC * 3 / 10) {
    }
    const HostCounters after = read_host_counters();
    const HostRates between = rates(before, after);
    EXPECT_GE(between.seconds, 0.3);
    EXPECT_GT((between.user_cores + between.system_cores) * between.seconds, 0.25);
    EXPECT_LT(between.user_cores + between.system_cores, 1.5);
    EXPECT_GT(*after.rss_bytes - *before.rss_bytes, 60 << 20);
    EXPECT_EQ(memory.back(), 1);
    ASSERT_TRUE(between.steal && between.iowait);
    EXPECT_LE(*between.steal + *between.iowait, 1);
}

}  // namespace
}  // namespace stoker
