// The features agree with the kernel's list in /proc/cpuinfo.
#include "stoker/base/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace stoker {
namespace {

std::set<std::string> kernel_flags() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("flags")) {
            std::istringstream words(line.substr(line.find(':') + 1));
            return {std::istream_iterator<std::string>(words), {}};
        }
    }
    return {};
}

TEST(CpuFeatures, AgreeWithTheKernel) {
    const std::set<std::string> flags = kernel_flags();
    if (flags.empty()) {
        GTEST_SKIP() << "no flags in /proc/cpuinfo";
    }
    const auto has = [&](std::initializer_list<const char*> names) {
        return std::all_of(names.begin(), names.end(), [&](const char* name) { return flags.contains(name); });
    };
    const CpuFeatures& features = cpu_features();
    EXPECT_EQ(features.avx2, has({"avx2", "fma"}));
    EXPECT_EQ(features.avx512, has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}));
    EXPECT_EQ(features.avx512_vbmi2, features.avx512 && has({"avx512_vbmi2"}));
    EXPECT_FALSE(features.neon);
    EXPECT_FALSE(features.model.empty());
}

TEST(CpuFeatures, NamesWhatIsPresentSmallestFirst) {
    CpuFeatures features;
    EXPECT_TRUE(features.names().empty());
    features.avx512_vbmi2 = true;
    features.avx2 = true;
    features.avx512 = true;
    EXPECT_THAT(features.names(), ::testing::ElementsAre("avx2", "avx512", "avx512_vbmi2"));
    features = {};
    features.neon = true;
    EXPECT_THAT(features.names(), ::testing::ElementsAre("neon"));
}

}  // namespace
}  // namespace stoker
