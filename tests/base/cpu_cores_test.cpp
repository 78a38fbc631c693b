// The count of cores for made-up cgroup trees, a made-up LOCAL_WORLD_SIZE and a real affinity mask.
#include "stoker/base/cpu_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <optional>

#include "stoker/base/error.h"
#include "support/environment_variable.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using stoker::testing::EnvironmentVariable;
using stoker::testing::TempDir;

class CpuCoresTest : public ::testing::Test {
  protected:
    void write(const std::string& name, const std::string& text) {
        const std::filesystem::path path = root_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    CpuCores read() { return cpu_cores(root_.path().string(), (root_ / "self").string()); }

    TempDir root_;
    EnvironmentVariable ranks_{"LOCAL_WORLD_SIZE", std::nullopt};
};

TEST(UsableCores, IsTheShareOfTheTighterLimit) {
    EXPECT_EQ(usable_cores(8, 0, 1), 8);
    EXPECT_EQ(usable_cores(8, 4, 1), 4);
    EXPECT_EQ(usable_cores(4, 16, 1), 4);
    EXPECT_EQ(usable_cores(8, 3.9, 1), 3);
    EXPECT_EQ(usable_cores(8, 0, 3), 2);
    EXPECT_EQ(usable_cores(64, 6, 4), 1);
    EXPECT_EQ(usable_cores(2, 0, 8), 1);
    EXPECT_EQ(usable_cores(8, 0.25, 1), 1);
    EXPECT_EQ(usable_cores(6, 0, 0), 6);
    EXPECT_EQ(usable_cores(300, 0.3 / 0.1, 1), 3);  // a quota of 2.999... cores is one of 3
}

TEST_F(CpuCoresTest, WithoutACgroupTheAffinityCounts) {
    const CpuCores cores = read();
    EXPECT_EQ(cores.quota, 0);
    EXPECT_EQ(cores.ranks_on_host, 1);
    EXPECT_GE(cores.affinity, 1);
    EXPECT_GE(cores.online, cores.affinity);
    EXPECT_EQ(cores.usable, cores.affinity);
}

TEST_F(CpuCoresTest, ReadsTheQuotaOfCgroupV2) {
    write("cpu.max", "150000 100000\n");
    EXPECT_DOUBLE_EQ(read().quota, 1.5);
    EXPECT_EQ(read().usable, 1);
    write("cpu.max", "max 100000\n");
    EXPECT_EQ(read().quota, 0);
    EXPECT_EQ(read().usable, read().affinity);
}

TEST_F(CpuCoresTest, ReadsTheQuotaOfCgroupV1) {
    write("cpu/cpu.cfs_quota_us", "50000\n");
    write("cpu/cpu.cfs_period_us", "20000\n");
    EXPECT_DOUBLE_EQ(read().quota, 2.5);
    write("cpu/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(read().quota, 0);
}

TEST_F(CpuCoresTest, TakesTheTightestGroupAboveTheProcess) {
    write("self", "12:memory:/other\n0::/slurm/job_7/task\n");
    write("slurm/job_7/task/cpu.max", "max 100000\n");
    write("slurm/job_7/cpu.max", "300000 100000\n");
    write("slurm/cpu.max", "800000 100000\n");
    EXPECT_DOUBLE_EQ(read().quota, 3);
    write("slurm/cpu.max", "200000 100000\n");
    EXPECT_DOUBLE_EQ(read().quota, 2);
    write("other/cpu.max", "100000 100000\n");  // of another group
    EXPECT_DOUBLE_EQ(read().quota, 2);

    write("self", "4:cpu,cpuacct:/a/b\n3:cpuset:/a\n");
    std::filesystem::remove_all(root_ / "slurm");
    write("cpu/a/b/cpu.cfs_quota_us", "400000");
    write("cpu/a/b/cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(read().quota, 4);
}

TEST_F(CpuCoresTest, InAContainerTheRootsQuotaCounts) {
    write("self", "0::/docker/0123456789ab\n");  // a name on the host that does not exist in the container
    write("cpu.max", "250000 100000\n");
    EXPECT_DOUBLE_EQ(read().quota, 2.5);
}

TEST_F(CpuCoresTest, FilesThatMakeNoSenseAreNoLimit) {
    for (const char* text : {"", "max", "nonsense", "nonsense 100000", "100000 0", "-5 100000", "100000"}) {
        write("cpu.max", text);
        EXPECT_EQ(read().quota, 0) << text;
        EXPECT_EQ(read().usable, read().affinity) << text;
    }
    write("cpu.max", "");
    for (const char* text : {"", "::", "no colons", "0:cpu", "0::"}) {
        write("self", text);
        EXPECT_EQ(read().quota, 0) << text;
    }
}

TEST_F(CpuCoresTest, RanksOfAHostShareItsCores) {
    const EnvironmentVariable ranks("LOCAL_WORLD_SIZE", "2");
    EXPECT_EQ(read().ranks_on_host, 2);
    EXPECT_EQ(read().usable, std::max(read().affinity / 2, 1));
    const EnvironmentVariable none("LOCAL_WORLD_SIZE", "");
    EXPECT_EQ(read().ranks_on_host, 1);
    for (const char* text : {"0", "-3", "many", "2x"}) {
        const EnvironmentVariable wrong("LOCAL_WORLD_SIZE", text);
        EXPECT_THROW(read(), InvalidArgument) << text;
    }
}

TEST_F(CpuCoresTest, CountsTheCoresThatTheProcessMayRunOn) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    int core = 0;
    while (!CPU_ISSET(core, &before)) {
        ++core;
    }
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        GTEST_SKIP() << "sched_setaffinity is not allowed here";
    }
    const CpuCores cores = read();
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(cores.affinity, 1);
    EXPECT_EQ(cores.usable, 1);
    EXPECT_EQ(read().affinity, CPU_COUNT(&before));
}

TEST(CpuCores, OfThisMachineIsAtLeastOneCore) {
    const CpuCores cores = cpu_cores();
    EXPECT_GE(cores.usable, 1);
    EXPECT_LE(cores.usable, cores.affinity);
    EXPECT_GE(cores.quota, 0);
}

}  // namespace
}  // namespace stoker
