// Settings of made-up hosts.
#include "stoker/monitor/host_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/support.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HostSettings, AreReadFromSys) {
    const testing::MadeUpTree tree;
    for (const char* core : {"cpu0", "cpu1", "cpu12"}) {
        const std::string folder = std::string("sys/devices/system/cpu/") + core + "/cpufreq/";
        tree.write(folder + "scaling_governor", "powersave\n");
        tree.write(folder + "scaling_driver", "intel_pstate\n");
        tree.write(folder + "energy_performance_preference", "balance_performance\n");
    }
    tree.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n");
    tree.write("sys/devices/system/cpu/cpuidle/current_driver", "none\n");
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree.write("proc/sys/vm/swappiness", "60\n");
    tree.write("sys/class/infiniband/mlx5_0/node_type", "1\n");
    tree.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12.3\n");
    EXPECT_THAT(clock_policies(tree.root()),
                ElementsAre(ClockPolicy{.governor = "performance"},
                            ClockPolicy{"powersave", "intel_pstate", "balance_performance"}));
    EXPECT_EQ(huge_pages(tree.root()), "madvise");
    EXPECT_EQ(swappiness(tree.root()), 60);
    EXPECT_TRUE(has_rdma(tree.root()));
    EXPECT_EQ(nvidia_module_version(tree.root()), "570.86.15");
}

TEST(HostSettings, PowersaveIsTheDefaultOfSomeDrivers) {
    EXPECT_TRUE((ClockPolicy{"powersave", "acpi-cpufreq"}).saves_power());
    EXPECT_TRUE((ClockPolicy{"powersave", "intel_cpufreq"}).saves_power()) << "intel_pstate in passive mode";
    EXPECT_FALSE((ClockPolicy{"schedutil", "acpi-cpufreq"}).saves_power());
    EXPECT_FALSE((ClockPolicy{"powersave", "intel_pstate", "balance_performance"}).saves_power());
    EXPECT_FALSE((ClockPolicy{"powersave", "amd-pstate-epp", "default"}).saves_power());
    EXPECT_TRUE((ClockPolicy{"powersave", "amd-pstate-epp", "power"}).saves_power());
    EXPECT_TRUE((ClockPolicy{"powersave", "intel_pstate", "balance_power"}).saves_power());
}

TEST(HostSettings, WhatIsNotThereIsAbsent) {
    const testing::MadeUpTree tree;
    EXPECT_THAT(clock_policies(tree.root()), IsEmpty());
    EXPECT_EQ(huge_pages(tree.root()), "");
    EXPECT_EQ(swappiness(tree.root()), std::nullopt);
    EXPECT_FALSE(has_rdma(tree.root()));
    EXPECT_EQ(nvidia_module_version(tree.root()), "");
    tree.write("sys/class/infiniband/.keep", "");
    std::filesystem::remove(tree.root() + "/sys/class/infiniband/.keep");
    EXPECT_FALSE(has_rdma(tree.root()));
}

TEST(HostSettings, WordsAndVersionsOfOddTexts) {
    EXPECT_EQ(chosen_word("[always] madvise never"), "always");
    EXPECT_EQ(chosen_word("always madvise"), "");
    EXPECT_EQ(chosen_word("[] ["), "");
    EXPECT_EQ(toolkit_version(R"({"cuda" : {"name" : "CUDA SDK", "version" : "13.0.1"}})"), "13.0.1");
    for (const char* text :
         {"", "{}", R"({"cuda" : {)", R"({"cuda": {"version": "<script>"}})", R"("cuda" "version" )"}) {
        EXPECT_EQ(toolkit_version(text), "") << text;
    }
}

}  // namespace
}  // namespace stoker
