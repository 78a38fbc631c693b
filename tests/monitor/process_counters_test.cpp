// Processes in made-up trees, with names that look like fields, and this process itself.
#include "stoker/monitor/process_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "monitor/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kStat = "42 (a) S (b) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 7 0 999 123456 25 0 0\n";

TEST(ProcessCounters, NamesMayHoldAnything) {
    const auto process = parse_process(kStat, 4096);
    ASSERT_TRUE(process);
    EXPECT_EQ(process->pid, 42);
    EXPECT_EQ(process->name, "a) S (b");
    EXPECT_EQ(process->state, 'R');
    EXPECT_EQ(process->cpu_ticks, 200);
    EXPECT_EQ(process->threads, 7);
    EXPECT_EQ(process->start_ticks, 999);
    EXPECT_EQ(process->rss_bytes, 25 * 4096);
}

TEST(ProcessCounters, OtherTextsAreNoProcess) {
    for (const char* text : {"", "42", "42 (name", "42 )name( R", "x (name) R 1", "42 (name) R 1 2 3", "42 (name) "}) {
        EXPECT_FALSE(parse_process(text, 4096)) << text;
    }
}

TEST(ProcessCounters, AreReadFromTheirFolders) {
    const testing::MadeUpTree tree;
    EXPECT_THAT(read_processes(tree.root()), IsEmpty());
    tree.write("proc/42/stat", kStat);
    tree.write("proc/42/io", "rchar: 1\nread_bytes: 8192\n");
    tree.write("proc/42/cmdline", std::string("stoker\0train\0--out\0\0x", 21));
    tree.write("proc/43/stat", "43 (ended");
    tree.write("proc/self/stat", kStat);
    const auto processes = read_processes(tree.root());
    ASSERT_EQ(processes.size(), 1);
    EXPECT_EQ(processes[0].read_bytes, 8192);
    EXPECT_THAT(read_command(42, tree.root()), ElementsAre("stoker", "train", "--out", "", "x"));
    EXPECT_THAT(read_command(43, tree.root()), IsEmpty());
}

TEST(ProcessCounters, APidThatWasGivenToAnotherProcessHasNoRate) {
    const std::vector<ProcessCounters> before = {
        {.pid = 1, .name = "same", .cpu_ticks = 100, .start_ticks = 5, .read_bytes = 10},
        {.pid = 2, .name = "old", .cpu_ticks = 100, .start_ticks = 5}};
    const std::vector<ProcessCounters> after = {
        {.pid = 1, .name = "same", .cpu_ticks = 400, .start_ticks = 5, .rss_bytes = 7, .read_bytes = 30},
        {.pid = 2, .name = "new", .cpu_ticks = 900, .start_ticks = 6}};
    const auto rates = process_rates(before, after, 2, 100);
    ASSERT_EQ(rates.size(), 1);
    EXPECT_DOUBLE_EQ(rates[0].cores, 1.5);
    EXPECT_EQ(rates[0].rss_bytes, 7);
    EXPECT_DOUBLE_EQ(rates[0].read_bytes.value(), 10);
}

TEST(ProcessCounters, ThisProcessIsFound) {
    const auto processes = read_processes();
    if (processes.empty()) {
        GTEST_SKIP() << "needs /proc";
    }
    const auto self = std::ranges::find(processes, std::int64_t{::getpid()}, &ProcessCounters::pid);
    ASSERT_NE(self, processes.end());
    EXPECT_EQ(self->name, "monitor_test");
    EXPECT_GT(self->rss_bytes, 1 << 20);
    EXPECT_THAT(read_command(self->pid).at(0), ::testing::EndsWith("monitor_test"));
}

}  // namespace
}  // namespace stoker
