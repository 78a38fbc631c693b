// NVML's values from a made-up library: all of them, none of them, and a library that does not start.
#include "stoker/monitor/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/support.h"
#include "stoker/monitor/gpu_counters.h"
#include "support/environment_variable.h"
#include "support/paths.h"

namespace stoker {
namespace {

using stoker::testing::EnvironmentVariable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFakeNvml = stoker::testing::program_dir() / "libfake_nvml.so";

TEST(Nvml, AllValuesArriveInTheirUnits) {
    const EnvironmentVariable kind("FAKE_NVML", "");
    const EnvironmentVariable count("FAKE_GPUS", "2");
    const Nvml nvml(kFakeNvml);
    EXPECT_EQ(nvml.problem(), "");
    EXPECT_EQ(nvml.driver_version(), "570.86.15");
    const auto gpus = nvml.read(/*pcie_throughput=*/true);
    ASSERT_EQ(gpus.size(), 2);
    const GpuCounters& gpu = gpus[1];
    EXPECT_EQ(gpu.index, 1);
    EXPECT_EQ(gpu.name, "Made-up H100");
    EXPECT_DOUBLE_EQ(gpu.busy.value(), 0.87);
    EXPECT_DOUBLE_EQ(gpu.memory_busy.value(), 0.40);
    EXPECT_EQ(gpu.memory_total, std::int64_t{80} << 30);
    EXPECT_EQ(gpu.memory_used, std::int64_t{60} << 30);
    EXPECT_DOUBLE_EQ(gpu.power_watts.value(), 651.5);
    EXPECT_DOUBLE_EQ(gpu.power_limit_watts.value(), 700);
    EXPECT_DOUBLE_EQ(gpu.power_limit_max_watts.value(), 700);
    EXPECT_EQ(gpu.celsius, 61);
    EXPECT_EQ(gpu.sm_mhz, 1755);
    EXPECT_EQ(gpu.sm_max_mhz, 1980);
    EXPECT_THAT(clock_reason_names(gpu.clock_reasons.value()), ElementsAre("power limit"));
    EXPECT_EQ(gpu.pcie.value().generation, 5);
    EXPECT_EQ(gpu.pcie_max.value().width, 16);
    EXPECT_DOUBLE_EQ(gpu.pcie_received_bytes.value(), 3e9);
    EXPECT_DOUBLE_EQ(gpu.pcie_sent_bytes.value(), 0.25e9);
    EXPECT_EQ(gpu.ecc, true);
    EXPECT_EQ(gpu.ecc_uncorrected, 0);
    EXPECT_EQ(gpu.ecc_corrected, 2);
    EXPECT_EQ(gpu.remap_pending, false);
    EXPECT_EQ(gpu.remap_failed, false);
    EXPECT_EQ(gpu.persistence, true);
    EXPECT_FALSE(gpu.mig);  // the library lacks this function
    ASSERT_TRUE(gpu.processes && gpu.processes->size() == 2);
    EXPECT_EQ(gpu.processes->front().pid, 4242);
    EXPECT_EQ(gpu.processes->front().memory_bytes, std::int64_t{40} << 30);
    EXPECT_EQ(gpu.processes->back().pid, 4343);
    EXPECT_FALSE(gpu.processes->back().memory_bytes);
}

TEST(Nvml, WhatAGpuDoesNotReportIsAbsent) {
    const EnvironmentVariable kind("FAKE_NVML", "silent");
    const auto gpus = Nvml(kFakeNvml).read(/*pcie_throughput=*/true);
    ASSERT_EQ(gpus.size(), 1);
    const GpuCounters& gpu = gpus[0];
    EXPECT_EQ(gpu.name, "Made-up H100");
    EXPECT_FALSE(gpu.busy || gpu.memory_total || gpu.memory_used || gpu.power_watts || gpu.power_limit_watts ||
                 gpu.celsius || gpu.sm_mhz || gpu.sm_max_mhz || gpu.clock_reasons || gpu.pcie || gpu.pcie_max ||
                 gpu.pcie_received_bytes || gpu.pcie_sent_bytes || gpu.ecc || gpu.ecc_uncorrected ||
                 gpu.ecc_corrected || gpu.persistence || gpu.processes || gpu.power_limit_max_watts ||
                 gpu.pcie_gpu_generation || gpu.pcie_gpu_width || gpu.remap_pending);
}

TEST(Nvml, ClocksOfTheGpuWithAUuid) {
    const std::string uuid("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16);
    {
        const EnvironmentVariable kind("FAKE_NVML", "hot");
        const auto gpu = Nvml(kFakeNvml).read_clocks(uuid);
        ASSERT_TRUE(gpu);
        EXPECT_EQ(gpu->celsius, 88);
        EXPECT_EQ(gpu->sm_mhz, 1200);
        EXPECT_EQ(gpu->sm_max_mhz, 1980);
        EXPECT_EQ(gpu->clock_reasons, 0x28);
    }
    EXPECT_FALSE(Nvml(kFakeNvml).read_clocks(std::string(16, '\x11'))) << "another GPU";
    EXPECT_FALSE(Nvml(kFakeNvml).read_clocks("")) << "LibTorch knows none";
    EXPECT_FALSE(Nvml("libof-no-driver.so").read_clocks(uuid));
    const EnvironmentVariable kind("FAKE_NVML", "silent");
    EXPECT_FALSE(Nvml(kFakeNvml).read_clocks(uuid)->celsius);
}

TEST(Nvml, AGpuThatDoesNotAnswerHasAProblem) {
    const EnvironmentVariable count("FAKE_GPUS", "2");
    {
        const EnvironmentVariable kind("FAKE_NVML", "lost");
        const auto gpus = Nvml(kFakeNvml).read(/*pcie_throughput=*/false);
        ASSERT_EQ(gpus.size(), 2);
        EXPECT_EQ(gpus[0].problem, "");
        EXPECT_EQ(gpus[1].index, 1);
        EXPECT_EQ(gpus[1].problem, "GPU is lost");
    }
    const EnvironmentVariable kind("FAKE_NVML", "denied");
    const auto gpus = Nvml(kFakeNvml).read(/*pcie_throughput=*/false);
    ASSERT_EQ(gpus.size(), 1) << "another user's is not shown";
    EXPECT_EQ(gpus[0].index, 1);
}

TEST(Nvml, TheGpusOwnLinkMayBeWiderThanItsSlot) {
    const testing::MadeUpTree tree;
    tree.write("sys/bus/pci/devices/0000:6b:00.0/max_link_width", "32\n");
    const EnvironmentVariable kind("FAKE_NVML", "limited");
    const GpuCounters gpu = Nvml(kFakeNvml, tree.root()).read(/*pcie_throughput=*/false).at(0);
    EXPECT_EQ(gpu.pcie_max.value().width, 16);
    EXPECT_EQ(gpu.pcie_gpu_width, 32);
    EXPECT_EQ(gpu.pcie_gpu_generation, 6);
    tree.write("sys/bus/pci/devices/0000:6b:00.0/max_link_width", "255\n");
    EXPECT_EQ(Nvml(kFakeNvml, tree.root()).read(/*pcie_throughput=*/false).at(0).pcie_gpu_width, std::nullopt)
        << "the kernel does not know";
}

TEST(Nvml, ADriverThatDoesNotStartIsKnownByItsFile) {
    const testing::TempDir folder;
    std::filesystem::copy_file(kFakeNvml, folder / "libnvidia-ml.so.535.86.10");
    std::filesystem::create_symlink("libnvidia-ml.so.535.86.10", folder / "libnvidia-ml.so.1");
    const EnvironmentVariable kind("FAKE_NVML", "broken");
    EXPECT_EQ(Nvml(folder / "libnvidia-ml.so.1").driver_version(), "535.86.10");
}

TEST(Nvml, ThroughputIsReadOnRequest) {
    const EnvironmentVariable kind("FAKE_NVML", "");
    EXPECT_FALSE(Nvml(kFakeNvml).read(/*pcie_throughput=*/false).at(0).pcie_received_bytes);
}

TEST(Nvml, ProblemsAreOneLine) {
    const Nvml absent("libno-such-library.so.1");
    EXPECT_FALSE(absent.installed());
    EXPECT_EQ(absent.problem(), "no NVIDIA driver (libno-such-library.so.1 was not found)");
    EXPECT_THAT(absent.read(true), IsEmpty());
    EXPECT_EQ(absent.driver_version(), "");
    const EnvironmentVariable kind("FAKE_NVML", "broken");
    const Nvml broken(kFakeNvml);
    EXPECT_TRUE(broken.installed());
    EXPECT_EQ(broken.problem(), "NVML does not start: Driver Not Loaded");
    EXPECT_THAT(broken.read(true), IsEmpty());
    const Nvml other("libm.so.6");
    EXPECT_THAT(other.problem(), HasSubstr("is not NVIDIA's management library"));
}

TEST(GpuCounters, ReasonsInWords) {
    EXPECT_THAT(clock_reason_names(0), IsEmpty());
    EXPECT_THAT(clock_reason_names(0x1), ElementsAre("idle"));
    EXPECT_THAT(clock_reason_names(0x48), ElementsAre("hardware slowdown", "temperature (hardware)"));
    EXPECT_THAT(clock_reason_names(1ULL << 40), ElementsAre(HasSubstr("does not know")));
    EXPECT_FALSE(is_throttled(0x1 | 0x2 | 0x100));
    EXPECT_TRUE(is_throttled(0x1 | 0x20));
}

}  // namespace
}  // namespace stoker
