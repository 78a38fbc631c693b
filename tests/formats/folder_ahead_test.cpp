// Files are asked for once somebody had to wait, by several threads, and never after the end.
#include "stoker/formats/folder_ahead.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

namespace stoker {
namespace {

using namespace std::chrono_literals;

template <typename Condition>
bool soon(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(1ms);
    }
    return condition();
}

std::vector<std::int64_t> numbers(std::int64_t from, std::size_t count) {
    std::vector<std::int64_t> all(count);
    std::iota(all.begin(), all.end(), from);
    return all;
}

TEST(FolderAhead, AsksForNothingAsLongAsNobodyWaits) {
    std::atomic<int> fetched{0};
    {
        FolderAhead ahead([&](std::int64_t) { ++fetched; });
        ahead.announce(numbers(0, 100));
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_EQ(fetched, 0);
}

TEST(FolderAhead, AsksForWhatIsAnnouncedAfterAWait) {
    std::mutex mutex;
    std::set<std::int64_t> fetched;
    FolderAhead ahead([&](std::int64_t index) {
        const std::lock_guard lock(mutex);
        fetched.insert(index);
    });
    ahead.waited();
    ahead.announce(numbers(5, 200));
    EXPECT_TRUE(soon([&] {
        const std::lock_guard lock(mutex);
        return fetched.size() == 200;
    }));
    EXPECT_EQ(*fetched.begin(), 5);
    EXPECT_EQ(*fetched.rbegin(), 204);
}

// What is slow does not hold up the announcing, waits side by side, and what is too old is dropped.
TEST(FolderAhead, SlowFilesWaitSideBySide) {
    std::atomic<bool> slow{true};
    std::atomic<int> waiting{0};
    std::atomic<int> fetched{0};
    FolderAhead ahead([&](std::int64_t) {
        ++waiting;
        while (slow) {
            std::this_thread::sleep_for(1ms);
        }
        ++fetched;
    });
    ahead.waited();
    ahead.announce(numbers(0, 64));
    EXPECT_TRUE(soon([&] { return waiting == 16; }));
    for (int i = 0; i < 40; ++i) {
        ahead.announce(numbers(i * 64, 64));
    }
    slow = false;
    EXPECT_TRUE(soon([&] { return fetched == 1024 + 16; })) << fetched;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(fetched, 1024 + 16);
}

// Files that are in memory by now are not asked for for ever.
TEST(FolderAhead, StopsAskingWhenNobodyWaitsAnyMore) {
    std::atomic<int> fetched{0};
    FolderAhead ahead([&](std::int64_t) { ++fetched; });
    ahead.waited();
    for (int i = 0; i < 200; ++i) {
        ahead.announce(numbers(0, 64));
        EXPECT_TRUE(soon([&] { return fetched >= std::min(64 * (i + 1), 4096); }));
    }
    EXPECT_EQ(fetched, 4096);
    ahead.waited();
    ahead.announce(numbers(0, 64));
    EXPECT_TRUE(soon([&] { return fetched == 4096 + 64; }));
}

TEST(FolderAhead, EndsWithFilesStillAnnounced) {
    for (int i = 0; i < 20; ++i) {
        std::atomic<int> fetched{0};
        auto ahead = std::make_unique<FolderAhead>([&](std::int64_t) {
            std::this_thread::sleep_for(1ms);
            ++fetched;
        });
        ahead->waited();
        ahead->announce(numbers(0, 1000));
        ahead.reset();
        EXPECT_LT(fetched, 1000);
    }
}

}  // namespace
}  // namespace stoker
