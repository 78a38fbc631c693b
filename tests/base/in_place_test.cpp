// Which pieces of a mapped file are used where they lie: small ones always, large ones of sets that fit, if they are
// in memory.
#include "stoker/base/in_place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>

#include "stoker/base/file.h"
#include "support/page_cache.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using stoker::testing::drop_from_cache;
using stoker::testing::TempDir;

constexpr std::size_t kPages = 300;  // more than one question to the system covers
constexpr std::size_t kPage = 4096;

class InPlaceTest : public ::testing::Test {
  protected:
    InPlaceTest() { std::ofstream(path_, std::ios::binary) << std::string(kPages * kPage, 'x'); }

    // Without reading ahead.
    void read_at_random(std::size_t begin, std::size_t size) const {
        const int fd = ::open(path_.c_str(), O_RDONLY);
        ASSERT_GE(fd, 0);
        std::string bytes(size, ' ');
        EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
        EXPECT_EQ(::pread(fd, bytes.data(), size, static_cast<off_t>(begin)), static_cast<ssize_t>(size));
        ::close(fd);
    }

    TempDir directory_;
    std::filesystem::path path_ = directory_ / "f";
};

TEST_F(InPlaceTest, WhatHasBeenWrittenIsInMemory) {
    const MappedFile file(path_);
    EXPECT_TRUE(in_memory(file.bytes()));
    EXPECT_TRUE(in_memory(file.bytes().subspan(5, 70'000)));
    EXPECT_TRUE(in_memory({}));
}

TEST_F(InPlaceTest, OnePageThatIsNotInMemoryIsEnough) {
    const MappedFile file{File(path_)};
    for (const std::size_t page : {std::size_t{0}, std::size_t{257}, kPages - 1}) {
        if (!drop_from_cache(path_)) {
            GTEST_SKIP() << "this file system keeps what it is told to drop";
        }
        const std::size_t after = (page + 1) * kPage;
        read_at_random(0, page * kPage);
        read_at_random(after, kPages * kPage - after);
        EXPECT_FALSE(in_memory(file.bytes()));
        EXPECT_FALSE(in_memory(file.bytes().subspan(page * kPage + 7, 1)));
        EXPECT_TRUE(in_memory(file.bytes().first(page * kPage)));
        EXPECT_TRUE(in_memory(file.bytes().subspan(after)));
        EXPECT_FALSE(InPlace(0, true)(file.bytes()));
        EXPECT_TRUE(InPlace(0, true)(file.bytes().first(100))) << "small pieces are never asked for";
    }
}

// Also where the system does not tell what there is already.
TEST_F(InPlaceTest, LargePiecesAreFetchedAhead) {
    const MappedFile file{File(path_)};
    for (const bool shown : {true, false}) {
        if (!drop_from_cache(path_)) {
            GTEST_SKIP() << "this file system keeps what it is told to drop";
        }
        const auto piece = file.bytes().subspan(5 * kPage + 3, 100'000);
        InPlace(0, shown).prefetch(piece, 1'000'000);
        for (int tries = 0; !in_memory(piece) && tries < 5000; ++tries) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_TRUE(in_memory(piece));
    }
}

// Linux says of other people's files that all of their pages are in memory.
TEST_F(InPlaceTest, ResidencyIsShownToThoseWhoOwnAFileOrMayWriteToIt) {
    EXPECT_TRUE(File(path_).shows_residency());
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can be somebody else";
    }
    constexpr uid_t kOther = 12345;
    ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
    for (const auto& [owner, mode, shown] :
         {std::tuple(uid_t{0}, 0644, false), std::tuple(uid_t{0}, 0666, true), std::tuple(kOther, 0444, true)}) {
        ASSERT_EQ(::chown(path_.c_str(), owner, 0), 0);
        ASSERT_EQ(::chmod(path_.c_str(), static_cast<mode_t>(mode)), 0);
        const File file(path_);
        ASSERT_EQ(::seteuid(kOther), 0);
        const bool found = file.shows_residency();
        ASSERT_EQ(::seteuid(0), 0);
        EXPECT_EQ(found, shown) << fmt::format("{:o} of {}", mode, owner);
    }
}

TEST_F(InPlaceTest, LargePiecesOfSetsThatFit) {
    const MappedFile file(path_);
    const auto small = file.bytes().first(kReadBytes - 1);
    const auto large = file.bytes().first(kReadBytes);
    const InPlace fits(1000, true, 8000);
    EXPECT_TRUE(fits(small));
    EXPECT_TRUE(fits(large));
    for (const InPlace& rule : {InPlace(1001, true, 8000), InPlace(1000, false, 8000), InPlace()}) {
        EXPECT_TRUE(rule(small));
        EXPECT_FALSE(rule(large));
    }
}

TEST_F(InPlaceTest, WhatIsNotUsedInPlaceIsRead) {
    const MappedFile file(path_);
    Buffer storage;
    const auto read = [](std::span<std::byte> out) { std::ranges::fill(out, std::byte{'y'}); };
    EXPECT_EQ(InPlace(1, true, 8).get(file.bytes(), storage, read).data(), file.bytes().data());
    EXPECT_EQ(storage.size(), 0U);
    const auto copy = InPlace(2, true, 8).get(file.bytes(), storage, read);
    EXPECT_EQ(copy.data(), storage.data());
    ASSERT_EQ(copy.size(), file.bytes().size());
    EXPECT_EQ(copy.back(), std::byte{'y'});
}

TEST(MachineMemory, IsPlausible) {
    EXPECT_GT(machine_memory(), std::uint64_t{1} << 28);
    EXPECT_LT(machine_memory(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace stoker
