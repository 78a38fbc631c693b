// The figures follow memory that the test allocates.
#include "stoker/base/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

TEST(ProcessMemory, PeakGrowsByWhatIsAllocated) {
    const double before = peak_rss_mb();
    const std::vector<char> large((static_cast<std::size_t>(before) + 64) << 20, 'x');
    EXPECT_GE(peak_rss_mb(), before + 60);
}

}  // namespace
}  // namespace stoker
