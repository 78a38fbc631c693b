// Alignment, reuse and ownership of buffers: every allocation is freed once, with its own size.
#include "stoker/base/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Forwards to plain memory and checks that each block is freed once, with its size.
class CountingAllocator final : public Allocator {
  public:
    std::byte* allocate(std::size_t bytes) override {
        if (refuse) {
            throw IoError("refused");
        }
        std::byte* data = host_allocator().allocate(bytes);
        live[data] = bytes;
        ++allocations;
        return data;
    }
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        const auto found = live.find(data);
        mistakes += found == live.end() || found->second != bytes ? 1 : 0;
        if (found != live.end()) {
            live.erase(found);
            host_allocator().deallocate(data, bytes);
        }
    }

    std::map<std::byte*, std::size_t> live;
    int allocations = 0;
    int mistakes = 0;
    bool refuse = false;
};

TEST(HostAllocator, GivesAlignedMemoryThatCanBeWrittenToItsLastByte) {
    for (const std::size_t size : {1u, 2u, 63u, 64u, 65u, 127u, 4096u, 1000003u}) {
        Buffer buffer(size);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment, 0u) << size;
        EXPECT_EQ(buffer.size(), size);
        std::memset(buffer.data(), 0xAB, size);
        EXPECT_EQ(buffer.bytes().back(), std::byte{0xAB});
    }
    EXPECT_FALSE(host_allocator().pinned());
}

TEST(HostAllocator, RefusesASizeThatWrapsAround) {
    const std::size_t huge = std::numeric_limits<std::size_t>::max() - 10;
    EXPECT_THAT([&] { Buffer buffer(huge); }, ThrowsMessage<IoError>(HasSubstr("host memory")));
}

TEST(Buffer, EmptyOnesNeedNoMemory) {
    CountingAllocator allocator;
    {
        Buffer buffer(0, allocator);
        EXPECT_TRUE(buffer.bytes().empty());
        buffer.resize(0);
    }
    EXPECT_EQ(allocator.allocations, 0);
    Buffer none;
    EXPECT_EQ(none.data(), nullptr);
    none.resize(10);  // falls back to plain memory
    EXPECT_EQ(none.size(), 10u);
}

TEST(Buffer, StopsAllocatingOnceItHasSeenItsLargestSize) {
    CountingAllocator allocator;
    {
        Buffer buffer(100, allocator);
        const std::byte* first = buffer.data();
        std::memset(buffer.data(), 7, 100);
        for (const std::size_t size : {50u, 0u, 100u, 99u}) {
            buffer.resize(size);
            EXPECT_EQ(buffer.size(), size);
            EXPECT_EQ(buffer.capacity(), 100u);
            EXPECT_EQ(buffer.data(), first);
        }
        EXPECT_EQ(buffer.bytes()[98], std::byte{7});
        EXPECT_EQ(allocator.allocations, 1);
        buffer.resize(101);
        EXPECT_EQ(allocator.allocations, 2);
        EXPECT_EQ(allocator.live.size(), 1u) << "the old memory must be freed before the new is allocated";
    }
    EXPECT_TRUE(allocator.live.empty());
    EXPECT_EQ(allocator.mistakes, 0);
}

TEST(Buffer, MovesItsMemoryAndItsAllocator) {
    CountingAllocator left;
    CountingAllocator right;
    {
        Buffer a(10, left);
        Buffer b(20, right);
        const std::byte* memory = b.data();
        a = std::move(b);
        EXPECT_EQ(a.data(), memory);
        EXPECT_EQ(a.size(), 20u);
        EXPECT_TRUE(left.live.empty());
        EXPECT_EQ(b.data(), nullptr);  // NOLINT(bugprone-use-after-move): a moved-from buffer is empty
        EXPECT_EQ(b.size(), 0u);
        EXPECT_EQ(b.capacity(), 0u);

        Buffer& self = a;
        a = std::move(self);
        EXPECT_EQ(a.data(), memory);

        Buffer c(std::move(a));
        EXPECT_EQ(c.data(), memory);
        a.resize(5);  // NOLINT(bugprone-use-after-move): it still has its allocator
        EXPECT_EQ(right.allocations, 2);
    }
    EXPECT_TRUE(left.live.empty() && right.live.empty());
    EXPECT_EQ(left.mistakes + right.mistakes, 0);
}

TEST(Buffer, IsEmptyAfterAFailedGrowth) {
    CountingAllocator allocator;
    {
        Buffer buffer(10, allocator);
        allocator.refuse = true;
        EXPECT_THROW(buffer.resize(11), IoError);
        EXPECT_EQ(buffer.size(), 0u);
        EXPECT_EQ(buffer.capacity(), 0u);
        EXPECT_EQ(buffer.data(), nullptr);
        allocator.refuse = false;
        buffer.resize(11);
        EXPECT_EQ(buffer.size(), 11u);
    }
    EXPECT_TRUE(allocator.live.empty());
    EXPECT_EQ(allocator.mistakes, 0);
}

}  // namespace
}  // namespace stoker
