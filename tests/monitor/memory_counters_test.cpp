// The memory's counters in made-up trees, with and without a cgroup.
#include "stoker/monitor/memory_counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "monitor/support.h"

namespace stoker {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(MemoryCounters, AreReadFromFourFiles) {
    const testing::MadeUpTree tree;
    tree.write("proc/meminfo",
               "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: 2097152 kB\nCached: 1024 kB\n"
               "SwapTotal: 4096 kB\nSwapFree: 1024 kB\n");
    tree.write("proc/vmstat", "nr_free_pages 1\npswpin 10\npswpout 20\n");
    tree.write("proc/pressure/memory", "some avg10=50.00 avg60=0.00 avg300=0.00 total=9\n");
    const MemoryCounters memory = read_memory(tree.root());
    EXPECT_EQ(memory.total, 8192 * kMiB);
    EXPECT_EQ(memory.available, 2048 * kMiB);
    EXPECT_EQ(memory.page_cache, kMiB);
    EXPECT_EQ(memory.swap_total, 4 * kMiB);
    EXPECT_EQ(memory.swap_free, kMiB);
    EXPECT_EQ(memory.swapped_in, 10 * ::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(memory.swapped_out, 20 * ::sysconf(_SC_PAGESIZE));
    ASSERT_TRUE(memory.pressure);
    EXPECT_DOUBLE_EQ(memory.pressure->some_10s, 0.5);
    EXPECT_FALSE(memory.cgroup_limit || memory.cgroup_available);
}

TEST(MemoryCounters, TheLimitOfTheCgroupIsSeen) {
    const testing::MadeUpTree tree;
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n");
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("sys/fs/cgroup/memory.max", "1073741824\n");
    tree.write("sys/fs/cgroup/memory.current", "268435456\n");
    const MemoryCounters memory = read_memory(tree.root());
    EXPECT_EQ(memory.cgroup_limit, 1024 * kMiB);
    EXPECT_EQ(memory.cgroup_available, 768 * kMiB);
}

TEST(MemoryCounters, TheLimitIsSeenWhereTheMachineHasLess) {
    const testing::MadeUpTree tree;
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 65536 kB\n");
    tree.write("proc/self/cgroup", "0::/\n");
    tree.write("sys/fs/cgroup/memory.max", "1073741824\n");
    tree.write("sys/fs/cgroup/memory.current", "268435456\n");
    EXPECT_EQ(read_memory(tree.root()).cgroup_limit, 1024 * kMiB);
    EXPECT_EQ(read_memory(tree.root()).cgroup_available, 768 * kMiB);
}

TEST(MemoryCounters, WhatIsNotThereIsAbsent) {
    const testing::MadeUpTree tree;
    const MemoryCounters nothing = read_memory(tree.root());
    EXPECT_FALSE(nothing.total || nothing.available || nothing.swap_total || nothing.swapped_in || nothing.pressure ||
                 nothing.cgroup_limit);
    MemoryCounters half;
    parse_meminfo("MemTotal:\nMemAvailable: many kB\nSwapTotal: 5", half);
    EXPECT_FALSE(half.total || half.available || half.swap_free);
    EXPECT_EQ(half.swap_total, 5 * 1024);
}

}  // namespace
}  // namespace stoker
