// All counters of a made-up host between two readings, an empty host, and this one.
#include "stoker/monitor/host_monitor.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "monitor/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using stoker::testing::MadeUpTree;

constexpr const char* kNoNvml = "libno-such-library.so.1";

TEST(HostMonitor, RatesAreBetweenTwoReadings) {
    const MadeUpTree tree;
    tree.write("proc/stat", "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n");
    tree.write("proc/loadavg", "1.5 1 1 1/2 3\n");
    tree.write("proc/pressure/io", "some avg10=20.00 avg60=0.00 avg300=0.00 total=9\n");
    tree.write("proc/diskstats", "8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n");
    HostMonitor monitor(tree.root(), kNoNvml);
    tree.write("proc/stat", "cpu0 30 0 0 10 0 0 0 0\ncpu1 10 0 0 30 0 0 0 0\ncpu2 5 0 0 5 0 0 0 0\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const HostView view = monitor.next();
    EXPECT_GE(view.seconds, 0.02);
    ASSERT_EQ(view.cores.size(), 2);  // the third one was switched on in between
    EXPECT_DOUBLE_EQ(view.cores[0].shares.busy(), 0.75);
    EXPECT_DOUBLE_EQ(view.all_cores.value().busy(), 0.5);
    EXPECT_DOUBLE_EQ(view.load.value().one, 1.5);
    EXPECT_DOUBLE_EQ(view.io_pressure.value().some_10s, 0.2);
    EXPECT_FALSE(view.cpu_pressure || view.throttled || view.swap_in_bytes || view.memory.total);
    EXPECT_EQ(view.disks.size(), 1);
    EXPECT_TRUE(view.gpus.empty());
    EXPECT_FALSE(monitor.next().all_cores);  // no tick passed
}

TEST(HostMonitor, AnEmptyHostIsEmpty) {
    const MadeUpTree tree;
    HostMonitor monitor(tree.root(), kNoNvml);
    const HostView view = monitor.next();
    EXPECT_TRUE(view.cores.empty() && view.disks.empty() && view.network.empty() && view.processes.empty());
    EXPECT_FALSE(view.all_cores || view.load || view.memory.total);
}

TEST(HostMonitor, ReadingsInTheWrongOrderAreRefused) {
    const HostReading reading = read_host("/nowhere");
    EXPECT_THROW(compare(reading, reading), InvalidArgument);
}

TEST(HostMonitor, ThisHostIsPlausible) {
    if (!std::ifstream("/proc/stat")) {
        GTEST_SKIP() << "needs /proc";
    }
    HostMonitor monitor;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const HostView view = monitor.next();
    ASSERT_FALSE(view.cores.empty());
    for (const CoreView& core : view.cores) {
        EXPECT_LE(core.shares.busy() + core.shares.iowait + core.shares.steal, 1 + 1e-9);
    }
    EXPECT_GT(view.memory.total.value(), view.memory.available.value());
    EXPECT_FALSE(view.processes.empty());
}

}  // namespace
}  // namespace stoker
