// Which pieces of a mapped file are used where they lie: small ones always, large ones of sets that fit, if they are
// in memory.
#include "stoker/base/in_place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using stoker::testing::TempDir;

constexpr std::size_t kPages = 300;  // more than one question to the system covers
constexpr std::size_t kPage = 4096;

class InPlaceTest : public ::testing::Test {
  protected:
    InPlaceTest() { std::ofstream(path_, std::ios::binary) << std::string(kPages * kPage, 'x'); }

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
    struct statfs system {};
    constexpr decltype(system.f_type) kTmpfs = 0x01021994;
    ASSERT_EQ(::statfs(directory_.path().c_str(), &system), 0);
    if (system.f_type == kTmpfs) {
        GTEST_SKIP() << "files of tmpfs are always in memory";
    }
    const int fd = ::open(path_.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::fsync(fd), 0);
    const MappedFile file{File(path_)};
    std::string some(kPages * kPage, ' ');
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);  // no reading ahead
    for (const std::size_t page : {std::size_t{0}, std::size_t{257}, kPages - 1}) {
        ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        ASSERT_EQ(::pread(fd, some.data(), page * kPage, 0), static_cast<ssize_t>(page * kPage));
        const std::size_t after = (page + 1) * kPage;
        ASSERT_GE(::pread(fd, some.data(), some.size() - after, static_cast<off_t>(after)), 0);
        if (in_memory(file.bytes().subspan(page * kPage, kPage))) {
            GTEST_SKIP() << "this file system keeps what it is told to drop";
        }
        EXPECT_FALSE(in_memory(file.bytes()));
        EXPECT_FALSE(in_memory(file.bytes().subspan(page * kPage + 7, 1)));
        EXPECT_TRUE(in_memory(file.bytes().first(page * kPage)));
        EXPECT_TRUE(in_memory(file.bytes().subspan(after)));
        EXPECT_FALSE(InPlace(0)(file.bytes()));
        EXPECT_TRUE(InPlace(0)(file.bytes().first(100))) << "small pieces are never asked for";
    }
    ::close(fd);
}

TEST_F(InPlaceTest, LargePiecesOfSetsThatFit) {
    const MappedFile file(path_);
    const auto small = file.bytes().first(kReadBytes - 1);
    const auto large = file.bytes().first(kReadBytes);
    const InPlace fits(1000, 8000);
    EXPECT_TRUE(fits(small));
    EXPECT_TRUE(fits(large));
    for (const InPlace& rule : {InPlace(1001, 8000), InPlace()}) {
        EXPECT_TRUE(rule(small));
        EXPECT_FALSE(rule(large));
    }
}

TEST_F(InPlaceTest, WhatIsNotUsedInPlaceIsRead) {
    const MappedFile file(path_);
    Buffer storage;
    const auto read = [](std::span<std::byte> out) { std::ranges::fill(out, std::byte{'y'}); };
    EXPECT_EQ(InPlace(1, 8).get(file.bytes(), storage, read).data(), file.bytes().data());
    EXPECT_EQ(storage.size(), 0U);
    const auto copy = InPlace(2, 8).get(file.bytes(), storage, read);
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
