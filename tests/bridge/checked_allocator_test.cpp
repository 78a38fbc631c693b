// Which blocks are checked, how often the limit is read, and that LibTorch's tensors come from here.
#include "stoker/bridge/checked_allocator.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <algorithm>
#include <c10/core/CPUAllocator.h>
#include <cstring>

#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Limit {
    std::uint64_t left = 0;
    int asked = 0;
    CheckedAllocator allocator{*c10::GetDefaultCPUAllocator(), [this](std::uint64_t unwritten) {
                                   ++asked;
                                   return left - std::min(left, unwritten);
                               }};
};

TEST(CheckedAllocator, ThrowsBeforeMemoryRunsOut) {
    Limit limit{.left = 100 * kMiB};
    EXPECT_NE(limit.allocator.allocate(90 * kMiB).get(), nullptr);
    limit.left = 10 * kMiB;
    try {
        limit.allocator.allocate(90 * kMiB);
        FAIL();
    } catch (const c10::Error& error) {
        EXPECT_TRUE(is_out_of_memory(error));
        EXPECT_EQ(describe_shortage(error).substr(0, 26), "90.0 MiB asked for at once");
    }
    limit.left = 100 * kMiB;
    EXPECT_NE(limit.allocator.allocate(90 * kMiB).get(), nullptr) << "memory was freed meanwhile";
}

TEST(CheckedAllocator, ReadsTheLimitSeldom) {
    Limit limit{.left = 1000 * kMiB};
    for (int i = 0; i < 100; ++i) {
        limit.allocator.allocate(50 * kMiB);  // and freed at once
    }
    EXPECT_LE(limit.asked, 6);
    EXPECT_GE(limit.asked, 5);
}

// No limit counts pages before they are written.
TEST(CheckedAllocator, BlocksThatAreNotWrittenYetAreCounted) {
    Limit limit{.left = 100 * kMiB};
    const c10::DataPtr first = limit.allocator.allocate(50 * kMiB);
    EXPECT_THROW(limit.allocator.allocate(60 * kMiB), c10::Error);
    std::memset(first.get(), 1, 50 * kMiB);  // `left` is what was measured afterwards
    EXPECT_NE(limit.allocator.allocate(60 * kMiB).get(), nullptr);
    EXPECT_NE(limit.allocator.allocate(90 * kMiB).get(), nullptr) << "the last one was freed";
}

// A freed block's pages are usually the next one's.
TEST(CheckedAllocator, AFreedBlockIsNotCountedWithTheNextOneInItsPlace) {
    Limit limit{.left = 140 * kMiB};
    for (int i = 0; i < 10; ++i) {
        limit.allocator.allocate(50 * kMiB);
    }
    const c10::DataPtr last = limit.allocator.allocate(50 * kMiB);
    EXPECT_NE(limit.allocator.allocate(80 * kMiB).get(), nullptr);
}

TEST(CheckedAllocator, SmallBlocksAreNotCounted) {
    Limit limit{.left = 0};
    EXPECT_NE(limit.allocator.allocate(kMiB - 1).get(), nullptr);
    EXPECT_EQ(limit.asked, 0);
}

TEST(CheckedAllocator, GivesBlocksThatTheOtherAllocatorFrees) {
    Limit limit{.left = 100 * kMiB};
    EXPECT_EQ(limit.allocator.raw_deleter(), c10::GetDefaultCPUAllocator()->raw_deleter());
    void* block = limit.allocator.raw_allocate(2 * kMiB);
    limit.allocator.raw_deallocate(block);
}

TEST(CheckedAllocator, IsLibTorchsOnceItIsInstalled) {
    const at::Tensor before = at::empty({4 << 20});
    check_host_tensors();
    EXPECT_NE(dynamic_cast<CheckedAllocator*>(c10::GetAllocator(c10::DeviceType::CPU)), nullptr);
    EXPECT_THROW(at::empty({std::int64_t{1} << 44}), c10::OutOfMemoryError);
    EXPECT_TRUE(at::empty({4 << 20}).defined());
}

}  // namespace
}  // namespace stoker
