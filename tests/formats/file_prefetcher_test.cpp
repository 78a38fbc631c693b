// Files are fetched after a reader had to wait, by several threads, until enough of them were in memory already.
#include "stoker/formats/file_prefetcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

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

TEST(FilePrefetcher, IsIdleUntilAReaderWaits) {
    std::atomic<int> fetched{0};
    {
        FilePrefetcher ahead([&](std::int64_t) { return ++fetched > 0; });
        ahead.announce(numbers(0, 100));
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_EQ(fetched, 0);
}

// The latest announcements stay queued while idle: the waiting reader needs those files next.
TEST(FilePrefetcher, FetchesFilesAnnouncedBeforeAndAfterAWait) {
    std::mutex mutex;
    std::set<std::int64_t> fetched;
    FilePrefetcher ahead([&](std::int64_t index) {
        const std::lock_guard lock(mutex);
        fetched.insert(index);
        return false;
    });
    for (int i = 0; i < 10; ++i) {
        ahead.announce(numbers(100 * i, 100));
    }
    ahead.report_wait();
    ahead.announce(numbers(1000, 200));
    EXPECT_TRUE(soon([&] {
        const std::lock_guard lock(mutex);
        return fetched.size() == 100 * FilePrefetcher::kKeptWhenIdle + 200;
    }));
    EXPECT_EQ(*fetched.begin(), 1000 - 100 * static_cast<int>(FilePrefetcher::kKeptWhenIdle));
    EXPECT_EQ(*fetched.rbegin(), 1199);
}

// While some files are not in memory, it stays active without another wait.
TEST(FilePrefetcher, StaysActiveWhileFilesAreNotInMemory) {
    std::atomic<int> fetched{0};
    FilePrefetcher ahead([&](std::int64_t index) {
        ++fetched;
        return index % 1000 != 0;
    });
    ahead.report_wait();
    for (int i = 1; i <= 50; ++i) {
        ahead.announce(numbers(0, 1000));
        EXPECT_TRUE(soon([&] { return fetched == 1000 * i; })) << fetched;
    }
}

TEST(FilePrefetcher, SlowFilesAreFetchedInParallel) {
    std::atomic<bool> slow{true};
    std::atomic<int> waiting{0};
    FilePrefetcher ahead([&](std::int64_t) {
        ++waiting;
        while (slow) {
            std::this_thread::sleep_for(1ms);
        }
        return false;
    });
    ahead.report_wait();
    ahead.announce(numbers(0, 64));
    EXPECT_TRUE(soon([&] { return waiting == static_cast<int>(FilePrefetcher::kThreads); }));
    for (int i = 0; i < 40; ++i) {
        ahead.announce(numbers(i * 64, 64));
    }
    slow = false;
    EXPECT_TRUE(soon([&] { return waiting == 41 * 64; })) << waiting;
}

// A queue that grows too long keeps the newest files, because the reader has passed the others.
TEST(FilePrefetcher, TheOldestAreDropped) {
    std::atomic<bool> slow{true};
    std::atomic<std::int64_t> largest{0};
    std::atomic<int> fetched{0};
    FilePrefetcher ahead([&](std::int64_t index) {
        while (slow) {
            std::this_thread::sleep_for(1ms);
        }
        largest = std::max(largest.load(), index);
        ++fetched;
        return false;
    });
    ahead.report_wait();
    ahead.announce(numbers(0, 16));
    std::this_thread::sleep_for(50ms);
    const auto most = FilePrefetcher::kMaxQueued;
    ahead.announce(numbers(100'000, most));
    ahead.announce(numbers(200'000, most));
    slow = false;
    EXPECT_TRUE(soon([&] { return fetched >= static_cast<int>(most); }));
    std::this_thread::sleep_for(20ms);
    EXPECT_LE(fetched, static_cast<int>(most) + 16);
    EXPECT_GE(largest, 200'000);
}

// Becomes idle once enough files in a row were in memory.
TEST(FilePrefetcher, BecomesIdleWhenFilesAreInMemory) {
    std::atomic<int> fetched{0};
    FilePrefetcher ahead([&](std::int64_t) { return ++fetched > 0; });
    ahead.report_wait();
    const auto most = static_cast<int>(FilePrefetcher::kIdleAfter);
    const auto few = most + static_cast<int>(FilePrefetcher::kThreads);  // each thread may be fetching one
    ahead.announce(numbers(0, 3 * FilePrefetcher::kIdleAfter));
    EXPECT_TRUE(soon([&] { return fetched >= most; }));
    std::this_thread::sleep_for(20ms);
    EXPECT_LE(fetched, few);
    ahead.report_wait();
    EXPECT_TRUE(soon([&] { return fetched >= 2 * most; })) << fetched;
}

TEST(FilePrefetcher, EndsWithFilesStillQueued) {
    for (int i = 0; i < 20; ++i) {
        std::atomic<int> fetched{0};
        auto ahead = std::make_unique<FilePrefetcher>([&](std::int64_t) {
            std::this_thread::sleep_for(1ms);
            return ++fetched > 0;
        });
        ahead->report_wait();
        ahead->announce(numbers(0, 1000));
        ahead.reset();
        EXPECT_LT(fetched, 1000);
    }
}

// The threads exist in the parent only.
TEST(FilePrefetcher, ItsCopyInAForkedChildEnds) {
    auto ahead = std::make_unique<FilePrefetcher>([](std::int64_t) { return false; });
    ahead->report_wait();
    ahead->announce(numbers(0, 100));
    const pid_t child = ::fork();
    if (child == 0) {
        ahead->announce(numbers(0, 10));
        ahead->report_wait();
        ahead.reset();
        ::_exit(7);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace stoker
