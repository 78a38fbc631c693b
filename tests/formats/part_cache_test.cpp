#include "stoker/formats/part_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {
namespace {

struct Counted {
    std::size_t bytes = 0;
    int number = 0;
    std::size_t size() const { return bytes; }
};

class PartCacheTest : public testing::Test {
  protected:
    int get(std::uint64_t id, std::size_t bytes = 10) {
        return cache_.get(id, [&] { return Counted{.bytes = bytes, .number = ++decoded_}; })->number;
    }

    PartCache<Counted> cache_{30};
    int decoded_ = 0;
};

TEST_F(PartCacheTest, KeepsThePartsUsedLast) {
    EXPECT_EQ(get(0), 1);
    EXPECT_EQ(get(1), 2);
    EXPECT_EQ(get(2), 3);
    EXPECT_EQ(get(0), 1);  // now used after 1
    EXPECT_EQ(get(3), 4);  // removes 1
    EXPECT_EQ(get(0), 1);
    EXPECT_EQ(get(2), 3);
    EXPECT_EQ(get(1), 5);
}

TEST_F(PartCacheTest, KeepsOnePartThatExceedsTheBudget) {
    EXPECT_EQ(get(0), 1);
    EXPECT_EQ(get(1, 1000), 2);
    EXPECT_EQ(get(1, 1000), 2);
    EXPECT_EQ(get(0), 3);  // and removes the large one
    EXPECT_EQ(get(1, 1000), 4);
}

TEST_F(PartCacheTest, TakesAnotherBudget) {
    cache_.set_budget(1000);
    EXPECT_EQ(get(0, 400), 1);
    EXPECT_EQ(get(1, 400), 2);
    EXPECT_EQ(get(0, 400), 1);
    cache_.set_budget(30);
    EXPECT_EQ(get(2), 3);
    EXPECT_EQ(get(0), 4);
}

TEST_F(PartCacheTest, APartThatCannotBeDecodedIsTriedAgain) {
    EXPECT_THROW(cache_.get(0, []() -> Counted { throw std::runtime_error("damaged"); }), std::runtime_error);
    EXPECT_EQ(get(0), 1);
}

TEST_F(PartCacheTest, DamageIsKept) {
    int tries = 0;
    const auto decode = [&]() -> Counted {
        ++tries;
        throw DataError({}, {.where = "part", .expected = "a page", .got = "another"});
    };
    for (int i = 0; i < 3; ++i) {
        EXPECT_THROW(cache_.get(0, decode), DataError);
    }
    EXPECT_EQ(tries, 1);
}

TEST_F(PartCacheTest, ThreadsDecodeAPartOnce) {
    PartCache<Counted> cache(1 << 20);
    std::atomic<int> decoded = 0;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&] {
                for (std::uint64_t id = 0; id < 200; ++id) {
                    const auto part = cache.get(id, [&] {
                        ++decoded;
                        return Counted{.bytes = 1, .number = static_cast<int>(id)};
                    });
                    EXPECT_EQ(part->number, static_cast<int>(id));
                }
            });
        }
    }
    EXPECT_EQ(decoded, 200);
}

TEST_F(PartCacheTest, ManyThreadsAndASmallBudgetGiveTheRightParts) {
    PartCache<Buffer> cache(4 * 64);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < 2000; ++i) {
                const std::uint64_t id = (i * 7 + static_cast<std::uint64_t>(t)) % 16;
                const auto part = cache.get(id, [&] {
                    Buffer buffer(64);
                    buffer.data()[0] = static_cast<std::byte>(id);
                    return buffer;
                });
                EXPECT_EQ(part->data()[0], static_cast<std::byte>(id));
            }
        });
    }
}

}  // namespace
}  // namespace stoker
