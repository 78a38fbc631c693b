// Every piece of a range is done once, and of several failures the one with the lowest index is thrown.
#include "stoker/base/parallel_for.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker {
namespace {

using ::testing::ThrowsMessage;
using namespace std::chrono_literals;

void expect_each_once(int threads, std::int64_t count, std::int64_t grain) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
    std::atomic<int> calls = 0;
    parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
        ++calls;
        EXPECT_LT(begin, end);
        EXPECT_LE(end, count);
        EXPECT_LE(end - begin, std::max<std::int64_t>(grain, 1));
        for (std::int64_t i = begin; i < end; ++i) {
            ++done[static_cast<std::size_t>(i)];
        }
    });
    for (std::size_t i = 0; i < done.size(); ++i) {
        ASSERT_EQ(done[i], 1) << "index " << i << " of " << count << ", grain " << grain;
    }
    const std::int64_t step = std::max<std::int64_t>(grain, 1);
    EXPECT_EQ(calls, (count + step - 1) / step);
}

TEST(ParallelFor, DoesEveryPieceExactlyOnce) {
    for (const int threads : {0, 1, 2, 5}) {
        for (const std::int64_t count : {0, 1, 2, 7, 100, 1000}) {
            for (const std::int64_t grain : {0, 1, 3, 100, 5000}) {
                expect_each_once(threads, count, grain);
            }
        }
    }
    parallel_for(2, -5, 1, [](std::int64_t, std::int64_t) { FAIL() << "an empty range is not divided"; });
}

TEST(ParallelFor, UsesTheGivenNumberOfThreads) {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::barrier all_three(3);  // each thread waits in its piece until the others have theirs
    parallel_for(3, 3, 1, [&](std::int64_t, std::int64_t) {
        all_three.arrive_and_wait();
        const std::lock_guard lock(mutex);
        seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(seen.size(), 3U);
    EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

TEST(ParallelFor, RethrowsTheFailureWithTheLowestIndex) {
    for (int round = 0; round < 100; ++round) {
        const auto work = [&](std::int64_t begin, std::int64_t) {
            if (begin == 2) {
                std::this_thread::sleep_for(2ms);  // fails long after those behind it
            }
            if (begin >= 2) {
                throw std::runtime_error("piece " + std::to_string(begin));
            }
        };
        EXPECT_THAT([&] { parallel_for(4, 40, 1, work); },
                    ThrowsMessage<std::runtime_error>(::testing::StrEq("piece 2")));
    }
}

TEST(ParallelFor, SkipsThePiecesAfterAFailure) {
    std::atomic<int> calls = 0;
    EXPECT_THROW(parallel_for(1, 1000, 1,
                              [&](std::int64_t begin, std::int64_t) {
                                  ++calls;
                                  if (begin == 5) {
                                      throw std::runtime_error("five");
                                  }
                              }),
                 std::runtime_error);
    EXPECT_EQ(calls, 6);
}

// In a child process, because the limit counts all threads of a user and cannot be raised again.
TEST(ParallelFor, DoesAllWorkWhereTheSystemRefusesThreads) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer ends a process that cannot start threads";
#else
    constexpr int kNoLimit = 77;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        constexpr uid_t kNobody = 65534;  // the limit does not hold for root
        const rlimit one{.rlim_cur = 1, .rlim_max = 1};
        if (::setrlimit(RLIMIT_NPROC, &one) != 0 || (::geteuid() == 0 && ::setuid(kNobody) != 0)) {
            ::_exit(kNoLimit);
        }
        try {
            std::thread([] {}).join();
            ::_exit(kNoLimit);
        } catch (const std::system_error&) {
        }
        std::int64_t sum = 0;  // not atomic: only the calling thread works
        parallel_for(4, 1000, 7, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                sum += i;
            }
        });
        ::_exit(sum == 1000 * 999 / 2 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kNoLimit) {
        GTEST_SKIP() << "this system does not limit the number of threads";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
#endif
}

}  // namespace
}  // namespace stoker
