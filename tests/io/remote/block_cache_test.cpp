// The disk cache returns what was stored or nothing, even if its files are damaged, and never exceeds its budget.
#include "stoker/io/remote/block_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

constexpr std::size_t kBlock = 20'000;
constexpr std::int64_t kBudget = 10 * 24'576 + 8192;

BlockKey key_of(int number) {
    return block_key("object", static_cast<std::uint64_t>(number), kBlock);
}

std::vector<std::byte> block_of(int number) {
    std::minstd_rand random(static_cast<unsigned>(number + 1));
    std::vector<std::byte> bytes(kBlock);
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(random());
    }
    return bytes;
}

// True if the cache has the block; its bytes must then be right.
bool has(BlockCache& cache, int number) {
    std::vector<std::byte> out(kBlock);
    const bool found = cache.get(key_of(number), out);
    EXPECT_TRUE(!found || out == block_of(number)) << number;
    return found;
}

// Under the cache's lock: a listing can see a file twice that is renamed meanwhile.
std::int64_t on_disk(const fs::path& directory) {
    const Descriptor usage(::open((directory / "usage").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    ::flock(usage.get(), LOCK_EX);
    std::int64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
        std::error_code gone;
        const auto size = fs::file_size(entry, gone);
        sum += gone ? 0 : static_cast<std::int64_t>((size + 4095) / 4096 * 4096);
    }
    return sum;
}

fs::path file_of(const fs::path& directory, int number) {
    const BlockKey key = key_of(number);
    char name[64];
    std::snprintf(name, sizeof name, "%016llx%016llx.block", static_cast<unsigned long long>(key.high),
                  static_cast<unsigned long long>(key.low));
    return directory / name;
}

TEST(BlockCacheTest, ReturnsWhatWasStored) {
    const TempDir dir;
    {
        BlockCache cache(dir / "made" / "here", kBudget);
        EXPECT_FALSE(has(cache, 1));
        EXPECT_TRUE(cache.put(key_of(1), block_of(1)));
        EXPECT_TRUE(has(cache, 1));
        EXPECT_FALSE(has(cache, 2));
    }
    BlockCache again(dir / "made" / "here", kBudget);
    EXPECT_TRUE(has(again, 1));
}

TEST(BlockCacheTest, NeverTakesMoreThanItsBudget) {
    const TempDir dir;
    BlockCache cache(dir.path(), kBudget);
    for (int number = 0; number < 100; ++number) {
        ASSERT_TRUE(cache.put(key_of(number), block_of(number)));
        ASSERT_LE(on_disk(dir.path()), kBudget);
        ASSERT_LE(cache.used(), kBudget);
        ASSERT_TRUE(has(cache, number));
    }
    EXPECT_GT(on_disk(dir.path()), kBudget / 2);
    EXPECT_FALSE(has(cache, 0));
    BlockCache smaller(dir.path(), kBudget / 2);
    EXPECT_LE(on_disk(dir.path()), kBudget / 2);
}

TEST(BlockCacheTest, KeepsTheMostRecentlyUsed) {
    const TempDir dir;
    BlockCache cache(dir.path(), kBudget);
    for (int number = 0; number < 50; ++number) {
        cache.put(key_of(number), block_of(number));
        std::this_thread::sleep_for(std::chrono::milliseconds(6));  // file times have the resolution of a clock tick
        ASSERT_TRUE(has(cache, 0)) << number;
    }
}

TEST(BlockCacheTest, DamagedBlocksAreDropped) {
    const TempDir dir;
    BlockCache cache(dir.path(), kBudget);
    std::minstd_rand random(5);
    for (int round = 0; round < 60; ++round) {
        ASSERT_TRUE(cache.put(key_of(1), block_of(1)));
        const fs::path file = file_of(dir.path(), 1);
        ASSERT_TRUE(fs::exists(file));
        const auto size = fs::file_size(file);
        switch (round % 4) {
            case 0:
                fs::resize_file(file, random() % size);
                break;
            case 1:
                fs::resize_file(file, size + 1 + random() % 5000);
                break;
            case 2: {
                std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
                const auto at = static_cast<std::streamoff>(random() % size);
                stream.seekg(at);
                const char old = static_cast<char>(stream.get());
                stream.seekp(at);
                stream.put(static_cast<char>(old ^ static_cast<char>(1 + random() % 255)));
                break;
            }
            default:
                cache.put(key_of(2), block_of(2));
                fs::rename(file_of(dir.path(), 2), file);
                break;
        }
        EXPECT_FALSE(has(cache, 1)) << round;
        EXPECT_FALSE(fs::exists(file));
    }
    EXPECT_LE(cache.used(), kBudget);
}

TEST(BlockCacheTest, OthersDeletionsAndLeftoversDoNoHarm) {
    const TempDir dir;
    {
        BlockCache cache(dir.path(), kBudget);
        for (int number = 0; number < 9; ++number) {
            cache.put(key_of(number), block_of(number));
        }
        for (int number = 0; number < 9; ++number) {
            fs::remove(file_of(dir.path(), number));
        }
        for (int number = 20; number < 29; ++number) {
            EXPECT_TRUE(cache.put(key_of(number), block_of(number)));
        }
    }
    const std::string old = file_of(dir.path(), 1).string() + ".99-1.24448.tmp";
    std::ofstream(old) << "half of a blo";
    fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
    const std::string young = file_of(dir.path(), 2).string() + ".99-2.24448.tmp";
    std::ofstream(young) << "half";
    std::ofstream(dir / "notes.txt") << std::string(1 << 20, 'x');
    std::ofstream(dir / "usage", std::ios::trunc) << "?";
    BlockCache cache(dir.path(), kBudget);
    EXPECT_FALSE(fs::exists(old));
    EXPECT_TRUE(fs::exists(young));  // another process may be writing it: it counts with its final size
    EXPECT_TRUE(fs::exists(dir / "notes.txt"));
    for (int number = 40; number < 60; ++number) {
        EXPECT_TRUE(cache.put(key_of(number), block_of(number)));
        EXPECT_LE(cache.used(), kBudget);
    }
    EXPECT_TRUE(fs::exists(young));
}

TEST(BlockCacheTest, ManyUsersOfOneDirectory) {
    const TempDir dir;
    constexpr int kProcesses = 4;
    std::vector<pid_t> children;
    for (int process = 0; process < kProcesses; ++process) {
        const pid_t child = ::fork();
        if (child == 0) {
            bool good = true;
            try {
                BlockCache cache(dir.path(), kBudget);
                std::minstd_rand random(static_cast<unsigned>(process + 1));
                std::vector<std::byte> out(kBlock);
                for (int i = 0; i < 300; ++i) {
                    const int number = static_cast<int>(random() % 30);
                    cache.put(key_of(number), block_of(number));
                    const int other = static_cast<int>(random() % 30);
                    good = good && (!cache.get(key_of(other), out) || out == block_of(other));
                }
            } catch (...) {  // reported by the exit status
                good = false;
            }
            ::_exit(good ? 0 : 1);
        }
        children.push_back(child);
    }
    ::kill(children[0], SIGKILL);  // at an arbitrary point
    for (std::size_t i = 0; i < children.size();) {
        EXPECT_LE(on_disk(dir.path()), kBudget);
        int status = 0;
        if (::waitpid(children[i], &status, WNOHANG) == children[i]) {
            EXPECT_TRUE(i == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
            ++i;
        }
    }
    BlockCache cache(dir.path(), kBudget);
    EXPECT_LE(cache.used(), kBudget);
    for (int number = 0; number < 30; ++number) {
        has(cache, number);
    }
}

TEST(BlockCacheTest, RefusesInvalidArguments) {
    const TempDir dir;
    EXPECT_THROW(BlockCache(dir.path(), 0), InvalidArgument);
    std::ofstream(dir / "file") << "x";
    EXPECT_THROW(BlockCache(dir / "file", kBudget), IoError);
    BlockCache tiny(dir.path(), 16'384);
    EXPECT_FALSE(tiny.put(key_of(1), block_of(1)));  // larger than all of it
}

}  // namespace
}  // namespace stoker
