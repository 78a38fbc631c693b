#include "stoker/base/caching_allocator.h"

#include <gtest/gtest.h>

#include <map>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// Has `room` bytes, and counts.
class SmallMemory final : public Allocator {
  public:
    std::byte* allocate(std::size_t bytes) override {
        if (used + bytes > room) {
            throw IoError("refused");
        }
        ++allocations;
        used += bytes;
        std::byte* const data = host_allocator().allocate(bytes);
        live[data] = bytes;
        return data;
    }
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        EXPECT_EQ(live[data], bytes);
        live.erase(data);
        used -= bytes;
        host_allocator().deallocate(data, bytes);
    }
    bool pinned() const override { return true; }

    std::size_t room = 1000;
    std::size_t used = 0;
    int allocations = 0;
    std::map<std::byte*, std::size_t> live;
};

TEST(CachingAllocator, GivesAFreedBlockAgainForTheSameSizeOnly) {
    SmallMemory memory;
    CachingAllocator cache(memory);
    EXPECT_TRUE(cache.pinned());
    std::byte* const first = cache.allocate(64);
    cache.deallocate(first, 64);
    EXPECT_EQ(memory.used, 64U);
    std::byte* const other = cache.allocate(128);
    EXPECT_NE(other, first);
    EXPECT_EQ(cache.allocate(64), first);
    std::byte* const second = cache.allocate(64);  // the kept one is in use
    EXPECT_NE(second, first);
    EXPECT_EQ(memory.allocations, 3);
    cache.deallocate(first, 64);
    cache.deallocate(second, 64);
    cache.deallocate(other, 128);
}

TEST(CachingAllocator, ReturnsKeptBlocksWhereMemoryIsShortAndAtItsEnd) {
    SmallMemory memory;
    {
        CachingAllocator cache(memory);
        std::byte* const held = cache.allocate(100);
        cache.deallocate(cache.allocate(400), 400);
        cache.deallocate(cache.allocate(300), 300);
        EXPECT_EQ(memory.used, 800U);
        std::byte* const large = cache.allocate(900);
        EXPECT_EQ(memory.used, 1000U);
        EXPECT_THROW(cache.allocate(200), IoError);
        cache.deallocate(large, 900);
        cache.deallocate(held, 100);
        EXPECT_EQ(memory.used, 1000U);
    }
    EXPECT_EQ(memory.used, 0U);
}

}  // namespace
}  // namespace stoker
