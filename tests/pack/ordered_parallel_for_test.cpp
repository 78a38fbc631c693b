// ordered_parallel_for: every item once, consumed in order, a bounded number ahead, and the first item's error.
#include "stoker/pack/ordered_parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

TEST(OrderedParallelFor, ConsumesInOrderForAnyTiming) {
    for (const int threads : {1, 2, 5}) {
        const OrderedRange range{.begin = 3, .end = 200, .threads = threads};
        std::vector<std::int64_t> made(static_cast<std::size_t>(range.slots()), -1);
        std::atomic<std::int64_t> taken{3};
        std::atomic<std::int64_t> farthest{0};
        std::vector<std::int64_t> order;
        ordered_parallel_for(
            range,
            [&](std::int64_t item, int place, int thread) {
                EXPECT_TRUE(thread >= 0 && thread < threads);
                std::this_thread::sleep_for(std::chrono::microseconds(item * 7919 % 300));
                made[static_cast<std::size_t>(place)] = item;
                const std::int64_t ahead = item - taken;
                for (std::int64_t seen = farthest; ahead > seen && !farthest.compare_exchange_weak(seen, ahead);) {
                }
            },
            [&](std::int64_t item, int place) {
                EXPECT_EQ(made[static_cast<std::size_t>(place)], item);
                order.push_back(item);
                taken = item + 1;
            });
        std::vector<std::int64_t> expected(197);
        std::iota(expected.begin(), expected.end(), 3);
        EXPECT_EQ(order, expected);
        EXPECT_LE(farthest, range.slots());
    }
}

TEST(OrderedParallelFor, NothingToDo) {
    ordered_parallel_for(
        {.threads = 4}, [](std::int64_t, int, int) { FAIL(); }, [](std::int64_t, int) { FAIL(); });
    EXPECT_THROW(ordered_parallel_for({.threads = 0}, {}, {}), InvalidArgument);
}

TEST(OrderedParallelFor, RethrowsTheErrorOfTheFirstItemAfterAllBeforeIt) {
    std::int64_t taken = 0;
    const auto work = [](std::int64_t item, int, int) {
        if (item == 20) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        if (item >= 20) {
            throw std::runtime_error(std::to_string(item));
        }
    };
    try {
        ordered_parallel_for({.end = 100, .threads = 4}, work, [&](std::int64_t, int) { ++taken; });
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "20");
    }
    EXPECT_EQ(taken, 20);
}

TEST(OrderedParallelFor, StopsIfConsumingThrows) {
    std::atomic<std::int64_t> worked{0};
    const auto take = [](std::int64_t item, int) {
        if (item == 10) {
            throw std::runtime_error("enough");
        }
    };
    EXPECT_THROW(ordered_parallel_for(
                     {.end = 1'000'000, .threads = 3}, [&](std::int64_t, int, int) { ++worked; }, take),
                 std::runtime_error);
    EXPECT_LE(worked, 10 + 12);
}

}  // namespace
}  // namespace stoker
