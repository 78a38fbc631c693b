// Nothing is lost or doubled between many threads, a full queue really blocks, closing wakes all.
#include "stoker/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace stoker {
namespace {

using namespace std::chrono_literals;

// Polls, so that a test waits for a state and not for a guess at the time it takes.
template <typename Condition>
bool eventually(Condition condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) {
        std::this_thread::sleep_for(1ms);
    }
    return condition();
}

void exchange(int producers, int consumers, std::size_t capacity, int each) {
    BoundedQueue<int> queue(capacity);
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(producers * each));
    {
        std::vector<std::jthread> takers;
        for (int c = 0; c < consumers; ++c) {
            takers.emplace_back([&] {
                while (const auto item = queue.pop()) {
                    ++seen[static_cast<std::size_t>(*item)];
                }
            });
        }
        {
            std::vector<std::jthread> givers;
            for (int p = 0; p < producers; ++p) {
                givers.emplace_back([&, p] {
                    for (int i = 0; i < each; ++i) {
                        EXPECT_TRUE(queue.push(p * each + i));
                    }
                });
            }
        }
        queue.close();
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
        ASSERT_EQ(seen[i], 1) << "item " << i;
    }
    EXPECT_EQ(queue.stats().pushed, producers * each);
    EXPECT_EQ(queue.stats().popped, producers * each);
}

TEST(BoundedQueue, LosesNothingBetweenManyThreads) {
    for (const std::size_t capacity : {1u, 3u, 64u}) {
        exchange(4, 4, capacity, 2000);
        exchange(1, 6, capacity, 4000);
        exchange(6, 1, capacity, 1000);
    }
}

TEST(BoundedQueue, KeepsTheOrderAndTakesMoveOnlyItems) {
    BoundedQueue<std::unique_ptr<int>> queue(4);
    std::jthread giver([&] {
        for (int i = 0; i < 1000; ++i) {
            queue.push(std::make_unique<int>(i));
        }
        queue.close();
    });
    for (int i = 0; i < 1000; ++i) {
        const auto item = queue.pop();
        ASSERT_TRUE(item.has_value());
        ASSERT_EQ(**item, i);
    }
    EXPECT_FALSE(queue.pop().has_value());
}

TEST(BoundedQueue, HoldsAProducerBackWhileItIsFull) {
    BoundedQueue<int> queue(3);
    std::atomic<int> pushed = 0;
    std::jthread giver([&] {
        for (int i = 0; i < 5; ++i) {
            queue.push(i);
            ++pushed;
        }
    });
    ASSERT_TRUE(eventually([&] { return pushed == 3; }));
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(pushed, 3);
    EXPECT_EQ(queue.pop(), 0);
    ASSERT_TRUE(eventually([&] { return pushed == 4; }));
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(pushed, 4);
    EXPECT_GE(queue.stats().producers_blocked, 40ms);
    EXPECT_EQ(queue.stats().consumers_blocked, 0ns);
    queue.close();
}

TEST(BoundedQueue, CountsTheTimeThatConsumersWait) {
    BoundedQueue<int> queue(1);
    std::atomic<bool> waiting = false;
    std::jthread taker([&] {
        waiting = true;
        EXPECT_EQ(queue.pop(), 7);
    });
    ASSERT_TRUE(eventually([&] { return waiting.load(); }));
    std::this_thread::sleep_for(50ms);
    queue.push(7);
    taker.join();
    EXPECT_GE(queue.stats().consumers_blocked, 20ms);
    EXPECT_EQ(queue.stats().producers_blocked, 0ns);
}

TEST(BoundedQueue, CloseWakesWaitingConsumers) {
    BoundedQueue<int> queue(2);
    std::atomic<int> ended = 0;
    std::vector<std::jthread> takers;
    for (int i = 0; i < 3; ++i) {
        takers.emplace_back([&] {
            EXPECT_FALSE(queue.pop().has_value());
            ++ended;
        });
    }
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(ended, 0);
    queue.close();
    EXPECT_TRUE(eventually([&] { return ended == 3; }));
}

TEST(BoundedQueue, CloseWakesWaitingProducersAndLetsConsumersDrain) {
    BoundedQueue<int> queue(2);
    queue.push(1);
    queue.push(2);
    std::atomic<int> refused = 0;
    std::vector<std::jthread> givers;
    for (int i = 0; i < 3; ++i) {
        givers.emplace_back([&] { refused += queue.push(99) ? 0 : 1; });
    }
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(refused, 0);
    queue.close();
    EXPECT_TRUE(eventually([&] { return refused == 3; }));
    EXPECT_EQ(queue.pop(), 1);
    EXPECT_EQ(queue.pop(), 2);
    EXPECT_FALSE(queue.pop().has_value());
    EXPECT_EQ(queue.stats().pushed, 2);
    EXPECT_EQ(queue.stats().popped, 2);
}

TEST(BoundedQueue, DropsWhatIsPushedAfterTheEnd) {
    BoundedQueue<std::shared_ptr<int>> queue(2);
    queue.close();
    queue.close();  // a second time does no harm
    const auto item = std::make_shared<int>(1);
    EXPECT_FALSE(queue.push(item));
    EXPECT_EQ(item.use_count(), 1);
}

TEST(BoundedQueue, HasRoomForOneAtLeast) {
    BoundedQueue<int> queue(0);
    EXPECT_TRUE(queue.push(1));
    EXPECT_EQ(queue.pop(), 1);
}

}  // namespace
}  // namespace stoker
