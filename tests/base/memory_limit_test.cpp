// The limit of made-up cgroup trees, of RLIMIT_AS and of a real cgroup; and the allocations refused because of it.
#include "stoker/base/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "stoker/base/buffer.h"
#include "support/address_limit.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace stoker::testing;

class MemoryLimitTest : public ::testing::Test {
  protected:
    MemoryLimitTest() { write("meminfo", "MemTotal:  8000000 kB\nMemFree: 100 kB\nMemAvailable:  6000000 kB\n"); }

    void write(const std::string& name, const std::string& text) {
        const std::filesystem::path path = root_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    MemoryLimit read() {
        return memory_limit({.cgroups = root_.path().string(),
                             .own_cgroups = (root_ / "self").string(),
                             .meminfo = (root_ / "meminfo").string()});
    }
    void expect(std::uint64_t total, std::uint64_t available, const char* source) {
        const MemoryLimit limit = read();
        EXPECT_EQ(limit.total, total);
        EXPECT_EQ(limit.available, available);
        EXPECT_EQ(limit.source, source);
    }

    TempDir root_;
};

TEST_F(MemoryLimitTest, WithoutACgroupTheMachineCounts) {
    expect(8'192'000'000, 6'144'000'000, "the machine has");
    write("memory.max", "max\n");
    write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // v1 without a limit
    expect(8'192'000'000, 6'144'000'000, "the machine has");
}

TEST_F(MemoryLimitTest, CgroupV2WithoutItsPageCache) {
    write("memory.max", "1000000\n");
    write("memory.current", "700000\n");
    expect(1'000'000, 300'000, "the cgroup allows");
    write("memory.stat", "anon 400000\nfile 300000\ninactive_file 100000\nactive_file 50000\nshmem 150000\n");
    expect(1'000'000, 450'000, "the cgroup allows");
    write("memory.high", "800000\n");
    expect(800'000, 250'000, "the cgroup allows");
    write("memory.current", "5000000\n");
    expect(800'000, 0, "the cgroup allows");
}

TEST_F(MemoryLimitTest, CgroupV1WithoutItsPageCache) {
    write("memory/memory.limit_in_bytes", "1000000\n");
    write("memory/memory.usage_in_bytes", "700000\n");
    write("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 200000\n");
    expect(1'000'000, 600'000, "the cgroup allows");
}

TEST_F(MemoryLimitTest, TheGroupWithTheLeastLeftCounts) {
    write("self", "12:cpu:/other\n0::/slurm/job_7/task\n");
    write("slurm/job_7/task/memory.max", "max\n");
    write("slurm/job_7/memory.max", "3000000\n");
    write("slurm/job_7/memory.current", "1000000\n");
    expect(3'000'000, 2'000'000, "the cgroup allows");
    write("slurm/memory.max", "9000000\n");  // larger, but other jobs use it
    write("slurm/memory.current", "8500000\n");
    expect(9'000'000, 500'000, "the cgroup allows");
    write("other/memory.max", "10\n");  // of another group
    expect(9'000'000, 500'000, "the cgroup allows");

    std::filesystem::remove_all(root_ / "slurm");
    write("self", "4:memory,hugetlb:/a/b\n3:cpuset:/c\n");
    write("memory/a/memory.limit_in_bytes", "400000");
    write("memory/a/memory.usage_in_bytes", "100000");
    write("memory/c/memory.limit_in_bytes", "10");
    expect(400'000, 300'000, "the cgroup allows");
}

TEST_F(MemoryLimitTest, InAContainerTheRootsLimitCounts) {
    write("self", "0::/docker/1234\n");  // which is not mounted in the container
    write("memory.max", "2000000\n");
    write("memory.current", "0\n");
    expect(2'000'000, 2'000'000, "the cgroup allows");
}

TEST_F(MemoryLimitTest, MalformedFilesSetNoLimit) {
    for (const char* text : {"", "\n", "none\n", "-1\n"}) {
        write("memory.max", text);
        write("memory/memory.limit_in_bytes", text);
        EXPECT_EQ(read().source, "the machine has") << text;
    }
    write("meminfo", "");
    EXPECT_GT(read().available, std::uint64_t{1} << 50) << "an unknown limit refuses nothing";
}

TEST_F(MemoryLimitTest, AnAddressLimitCounts) {
    const AddressLimit limit(300 * kMiB);
    const MemoryLimit found = memory_limit();
    EXPECT_EQ(found.source, "ulimit -v allows");
    EXPECT_NEAR(static_cast<double>(found.available), 300 * kMiB, 32 * kMiB);
}

TEST_F(MemoryLimitTest, TheGivenLimitReplacesAllOthers) {
    write("memory.max", "1000\n");
    const MemoryRoom room(100 * kMiB);
    EXPECT_EQ(read().source, "data.memory allows");
    EXPECT_NEAR(static_cast<double>(read().available), 100 * kMiB, 8 * kMiB);
}

TEST(RequireMemory, SaysWhatIsNeededWhatIsAllowedAndWhatToDo) {
    const MemoryRoom room(100 * kMiB);
    EXPECT_NO_THROW(require_memory(50 * kMiB, "x"));
    EXPECT_NO_THROW(require_memory(1000, "x"));
    try {
        require_memory(3 * 1024 * kMiB, "x.npz: images", "make it smaller");
        FAIL();
    } catch (const MemoryError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("[x.npz: images] expected a size of at most "), HasSubstr("3.0 GiB"),
                                        HasSubstr("that data.memory allows are free; make it smaller"),
                                        HasSubstr("--memory"), Not(HasSubstr("\n"))));
        EXPECT_THAT(error.within("data/set").what(), HasSubstr("[data/set: x.npz: images] expected"));
        EXPECT_THAT(error.within("x.npz").what(), HasSubstr("[x.npz: images] expected"));
    }
}

TEST(RequireMemory, ClaimsOfOtherThreadsCount) {
    const MemoryRoom room(200 * kMiB);
    {
        const MemoryClaim claim(100 * kMiB);
        EXPECT_THROW(MemoryClaim(100 * kMiB), MemoryError);
        EXPECT_THROW(require_memory(100 * kMiB, ""), MemoryError);
    }
    EXPECT_NO_THROW(MemoryClaim(100 * kMiB));
}

TEST(RequireMemory, UntouchedBuffersCount) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep freed memory";
#endif
    const MemoryRoom room(200 * kMiB);
    Buffer first(100 * kMiB);
    EXPECT_THROW(Buffer(100 * kMiB), MemoryError) << "the first one is not written yet";
    std::fill_n(first.data(), first.size(), std::byte{1});
    EXPECT_THROW(Buffer(100 * kMiB), MemoryError);
    EXPECT_NO_THROW(Buffer(20 * kMiB));
    first = Buffer();
    EXPECT_NO_THROW(Buffer(100 * kMiB));
}

TEST(RequireMemory, HugeBuffersAreCountedForTheirThread) {
    const std::uint64_t before = huge_allocations();
    const Buffer small(64 * kMiB);
    std::thread([] { const Buffer of_another_thread(256 * kMiB); }).join();
    EXPECT_EQ(huge_allocations(), before);
    const Buffer huge(256 * kMiB);
    EXPECT_EQ(huge_allocations(), before + 1);
}

}  // namespace
}  // namespace stoker
