// Both caches: they return what was put, stay within the budget, and work with many threads.
#include "stoker/pipeline/cache/sample_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "stoker/base/error.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

// Sample `index`: known bytes, with another length than its neighbours.
void make_sample(std::int64_t index, Sample& sample) {
    sample.storage.resize(static_cast<std::size_t>(3 + index % 50));
    for (std::size_t i = 0; i < sample.storage.size(); ++i) {
        sample.storage.data()[i] = static_cast<std::byte>(index * 31 + static_cast<std::int64_t>(i));
    }
    sample.bytes = sample.storage.bytes();
    sample.label = index * 10;
    sample.encoded = index % 2 == 0;
    sample.height = static_cast<int>(index % 7);
    sample.width = 5;
    sample.channels = 3;
}

bool same(const Sample& a, const Sample& b) {
    return a.label == b.label && a.encoded == b.encoded && a.height == b.height && a.width == b.width &&
           a.channels == b.channels && std::ranges::equal(a.bytes, b.bytes);
}

class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit wanted{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &wanted);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_{};
    void (*handler_)(int);
};

class SampleCaches : public ::testing::TestWithParam<bool> {
  protected:
    std::unique_ptr<SampleCache> make(std::int64_t size, std::int64_t budget) {
        return make_sample_cache(size, {.bytes = budget, .directory = GetParam() ? directory_.path() : ""});
    }
    testing::TempDir directory_;
};

TEST_P(SampleCaches, GiveBackWhatWasPut) {
    const auto cache = make(20, 1 << 20);
    Sample sample;
    Sample expected;
    EXPECT_FALSE(cache->get(3, sample));
    for (std::int64_t i = 0; i < 20; ++i) {
        make_sample(i, sample);
        cache->put(i, sample);
    }
    for (std::int64_t i = 0; i < 20; ++i) {
        make_sample(i, expected);
        ASSERT_TRUE(cache->get(i, sample));
        EXPECT_TRUE(same(sample, expected)) << i;
    }
}

TEST_P(SampleCaches, TheFirstPutStays) {
    const auto cache = make(2, 1 << 20);
    Sample first;
    Sample second;
    make_sample(1, first);
    make_sample(2, second);
    cache->put(1, first);
    cache->put(1, second);
    Sample got;
    ASSERT_TRUE(cache->get(1, got));
    EXPECT_TRUE(same(got, first));
}

TEST_P(SampleCaches, NeverHoldMoreThanTheirBudget) {
    for (const std::int64_t budget : {1, 799, 1000, 4000, 20'000}) {
        const auto cache = make(100, budget);
        Sample sample;
        std::int64_t held = 0;
        std::int64_t hits = 0;
        for (std::int64_t i = 0; i < 100; ++i) {
            make_sample(i, sample);
            cache->put(i, sample);
            ASSERT_LE(cache->bytes(), budget);
        }
        for (std::int64_t i = 0; i < 100; ++i) {
            if (cache->get(i, sample)) {
                ++hits;
                held += static_cast<std::int64_t>(sample.bytes.size());
            }
        }
        EXPECT_LE(held, cache->bytes());
        EXPECT_EQ(hits == 100, budget == 20'000) << budget;
        EXPECT_EQ(hits > 0, budget >= (GetParam() ? 799 : 1000)) << budget << ": an index in memory counts";
    }
}

TEST_P(SampleCaches, ServeManyThreads) {
    constexpr std::int64_t kSize = 400;
    constexpr std::int64_t kBudget = 14'000;
    const auto cache = make(kSize, kBudget);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            Sample sample;
            Sample expected;
            for (std::int64_t step = 0; step < 4 * kSize; ++step) {
                const std::int64_t i = (step * 7 + t * 3) % kSize;
                make_sample(i, expected);
                if (!cache->get(i, sample)) {
                    cache->put(i, expected);
                    wrong += cache->bytes() > kBudget;
                } else {
                    wrong += !same(sample, expected);
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_LE(cache->bytes(), kBudget);
    EXPECT_GT(cache->bytes(), kBudget / 2);
}

INSTANTIATE_TEST_SUITE_P(InMemoryAndOnDisk, SampleCaches, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Disk" : "Memory"; });

TEST(DiskCache, LeavesNoFile) {
    const testing::TempDir directory;
    const auto cache = make_sample_cache(4, {.bytes = 1 << 20, .directory = directory.path() / "new"});
    Sample sample;
    make_sample(1, sample);
    cache->put(1, sample);
    EXPECT_TRUE(std::filesystem::is_empty(directory.path() / "new")) << "a killed process leaves nothing either";
}

TEST(DiskCache, SaysWhereItCannotWrite) {
    const testing::TempDir directory;
    EXPECT_THROW(make_sample_cache(4, {.bytes = 100, .directory = "/proc/no/such"}), IoError);
}

// A limit on file sizes acts as a full disk: a write is cut short and then fails.
TEST(DiskCache, StopsGrowingWhereTheDiskIsFull) {
    const testing::TempDir directory;
    const FileSizeLimit limit(4096);
    const auto cache = make_sample_cache(100, {.bytes = 1 << 20, .directory = directory.path()});
    Sample sample;
    for (std::int64_t i = 0; i < 100; ++i) {
        make_sample(49, sample);
        cache->put(i, sample);
    }
    EXPECT_NE(cache->stop_reason(), "");
    std::int64_t hits = 0;
    Sample expected;
    make_sample(49, expected);
    for (std::int64_t i = 0; i < 100; ++i) {
        if (cache->get(i, sample)) {
            ++hits;
            EXPECT_TRUE(same(sample, expected));
        }
    }
    EXPECT_GT(hits, 10);
    EXPECT_LT(hits, 100);
}

// Puts samples of 1 MiB until the cache stops; returns how many it holds.
std::int64_t fill(SampleCache& cache, std::int64_t size) {
    Sample sample;
    sample.storage.resize(testing::kMiB);
    std::fill_n(sample.storage.data(), sample.storage.size(), std::byte{5});
    sample.bytes = sample.storage.bytes();
    std::int64_t held = 0;
    for (std::int64_t i = 0; i < size; ++i) {
        cache.put(i, sample);
        held += cache.holds(i) ? 1 : 0;
    }
    return held;
}

TEST(RamCache, StopsGrowingBeforeTheMemoryLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep freed memory";
#endif
    const testing::MemoryRoom room(200 * testing::kMiB);
    const auto cache = make_sample_cache(400, {.bytes = std::int64_t{1} << 40});
    const std::int64_t held = fill(*cache, 400);
    EXPECT_GT(held, 60);
    EXPECT_LT(held, 160) << "a quarter of the limit stays free";
    EXPECT_LE(cache->bytes(), (held + 1) * testing::kMiB);
    EXPECT_THAT(cache->stop_reason(), ::testing::HasSubstr("that data.memory allows are free"));
    Sample sample;
    EXPECT_TRUE(cache->get(0, sample)) << "the cached samples stay";
}

TEST(RamCache, CountsWhatElseTheProcessUses) {
    const testing::MemoryRoom room(300 * testing::kMiB);
    const std::vector<char> other(std::size_t{150} << 20, 'x');
    const auto cache = make_sample_cache(400, {.bytes = std::int64_t{1} << 40});
    EXPECT_LT(fill(*cache, 400), 100);
    EXPECT_NE(cache->stop_reason(), "");
}

// Files of tmpfs are memory, other files are not.
TEST(DiskCache, InATmpfsItStopsGrowingBeforeTheMemoryLimit) {
    if (!std::filesystem::is_directory("/dev/shm")) {
        GTEST_SKIP() << "needs /dev/shm";
    }
    const testing::MemoryRoom room(60 * testing::kMiB);
    const auto in_memory = make_sample_cache(100, {.bytes = std::int64_t{1} << 40, .directory = "/dev/shm"});
    {
        const std::vector<char> other(std::size_t{40} << 20, 'x');
        EXPECT_EQ(fill(*in_memory, 20), 0);
    }
    EXPECT_THAT(in_memory->stop_reason(), ::testing::HasSubstr("data.memory"));
    const testing::TempDir directory;
    struct statfs info {};
    ASSERT_EQ(::statfs(directory.path().c_str(), &info), 0);
    if (info.f_type != TMPFS_MAGIC) {
        const auto on_disk = make_sample_cache(20, {.bytes = std::int64_t{1} << 40, .directory = directory.path()});
        EXPECT_EQ(fill(*on_disk, 20), 20);
        EXPECT_EQ(on_disk->stop_reason(), "");
    }
}

}  // namespace
}  // namespace stoker
