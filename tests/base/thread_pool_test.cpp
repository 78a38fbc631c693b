// Every piece of a range is done once, and of several failures the first by index is the one reported.
#include "stoker/base/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace std::chrono_literals;

void expect_each_once(ThreadPool& pool, std::int64_t count, std::int64_t grain) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
    std::atomic<int> calls = 0;
    pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
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

TEST(ThreadPool, DoesEveryPieceExactlyOnce) {
    for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.threads(), threads);
        for (const std::int64_t count : {0, 1, 2, 7, 100, 1000}) {
            for (const std::int64_t grain : {0, 1, 3, 100, 5000}) {
                expect_each_once(pool, count, grain);
            }
        }
        pool.parallel_for(-5, 1, [](std::int64_t, std::int64_t) { FAIL() << "an empty range has no pieces"; });
    }
}

TEST(ThreadPool, HasOneThreadAtLeast) {
    ThreadPool pool(0);
    EXPECT_EQ(pool.threads(), 1);
    expect_each_once(pool, 10, 1);
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
    ThreadPool pool(3);
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i) {
        callers.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                expect_each_once(pool, 50, 3);
            }
        });
    }
}

TEST(ThreadPool, RethrowsTheFirstFailureByIndex) {
    ThreadPool pool(4);
    for (int round = 0; round < 100; ++round) {
        const auto work = [&](std::int64_t begin, std::int64_t) {
            if (begin == 2) {
                std::this_thread::sleep_for(2ms);  // fails long after those behind it
            }
            if (begin >= 2) {
                throw std::runtime_error("piece " + std::to_string(begin));
            }
        };
        EXPECT_THAT([&] { pool.parallel_for(40, 1, work); },
                    ThrowsMessage<std::runtime_error>(::testing::StrEq("piece 2")));
    }
    expect_each_once(pool, 100, 7);  // a failure leaves the pool usable
}

TEST(ThreadPool, SkipsThePiecesBehindAFailure) {
    ThreadPool pool(1);
    std::atomic<int> calls = 0;
    EXPECT_THROW(pool.parallel_for(1000, 1,
                                   [&](std::int64_t begin, std::int64_t) {
                                       ++calls;
                                       if (begin == 5) {
                                           std::this_thread::sleep_for(20ms);  // others queue up behind it
                                           throw DataError({.path = "x"}, {.where = "", .expected = "", .got = ""});
                                       }
                                   }),
                 DataError);
    EXPECT_EQ(calls, 6);
}

TEST(ThreadPool, SaysWhenTheSystemGivesNoThread) {
    pthread_attr_t before;
    pthread_attr_t impossible;
    ASSERT_EQ(pthread_getattr_default_np(&before), 0);
    ASSERT_EQ(pthread_attr_init(&impossible), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&impossible, std::size_t{1} << 55), 0);
    ASSERT_EQ(pthread_setattr_default_np(&impossible), 0);
    EXPECT_THAT([] { ThreadPool pool(3); }, ThrowsMessage<IoError>(HasSubstr("expected 3 threads, got 0 (")));
    ASSERT_EQ(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&impossible);
    pthread_attr_destroy(&before);
}

}  // namespace
}  // namespace stoker
