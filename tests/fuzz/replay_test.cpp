// Each fuzz target over the corpus that is kept for it, by any compiler and without a fuzzer: faults found once stay
// fixed. The table is made by CMake from the files fuzz/fuzz_*.cpp, whose entry points are renamed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "support/paths.h"

#define TARGET(name) extern "C" int replay_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef TARGET

namespace stoker {
namespace {

namespace fs = std::filesystem;

struct Target {
    const char* name;
    int (*run)(const std::uint8_t* data, std::size_t size);
};

const Target kTargets[] = {
#define TARGET(name) {#name, replay_##name},
#include "fuzz_targets.inc"
#undef TARGET
};

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, Corpus) {
    const fs::path folder = stoker::testing::source_dir() / "fuzz/corpus" / GetParam().name;
    std::vector<fs::path> files;
    if (fs::is_directory(folder)) {
        std::ranges::copy(fs::directory_iterator(folder), std::back_inserter(files));
    }
    ASSERT_FALSE(files.empty()) << folder << " is empty: run ./dev corpus " << GetParam().name;
    std::ranges::sort(files);
    for (const fs::path& file : files) {
        SCOPED_TRACE(file);
        const std::string input = read_text(file);
        EXPECT_EQ(GetParam().run(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()), 0);
    }
}

std::string name_of(const ::testing::TestParamInfo<Target>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, ::testing::ValuesIn(kTargets), name_of);

}  // namespace
}  // namespace stoker
