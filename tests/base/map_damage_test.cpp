// A file that is cut short while it is mapped: zeros in place of its bytes, an error that names it, and no effect on
// other files, other handlers or later maps.
#include "stoker/base/map_damage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using stoker::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

std::filesystem::path put(const std::filesystem::path& path, std::size_t pages) {
    std::ofstream(path, std::ios::binary) << std::string(pages * kPage, 'x');
    return path;
}

// Its first `pages` pages stay.
void cut(const std::filesystem::path& path, std::size_t pages) {
    std::filesystem::resize_file(path, pages * kPage);
}

char byte_of(const MappedFile& file, std::size_t at) {
    return static_cast<char>(static_cast<const volatile std::byte*>(file.bytes().data())[at]);
}

TEST(MapDamage, ACutFileReadsAsZerosAndIsNamed) {
    const TempDir directory;
    std::optional<MappedFile> file(std::in_place, put(directory / "cut", 4));
    const MappedFile other(put(directory / "other", 4));
    cut(directory / "cut", 1);
    EXPECT_NO_THROW(check_maps()) << "nothing was read yet";
    EXPECT_EQ(byte_of(*file, kPage - 1), 'x');
    EXPECT_EQ(byte_of(*file, 2 * kPage + 5), '\0');
    EXPECT_EQ(byte_of(*file, kPage), '\0');
    EXPECT_EQ(byte_of(other, 3 * kPage), 'x');
    EXPECT_THAT(
        [] { check_maps(); },
        ThrowsMessage<IoError>(
            AllOf(HasSubstr("[" + (directory / "cut").string() + "] expected the " + std::to_string(4 * kPage)),
                  HasSubstr(std::to_string(kPage) + " bytes when byte " + std::to_string(2 * kPage + 5) + " was read"),
                  HasSubstr("another process has cut it short"))));
    EXPECT_THROW(check_maps(), IoError) << "as long as the map exists";
    MappedFile moved = std::move(*file);
    EXPECT_THROW(check_maps(), IoError);
    moved = MappedFile();
    file.reset();
    EXPECT_NO_THROW(check_maps()) << "a map that is opened later is sound";
}

TEST(MapDamage, AMapAtTheSamePlaceIsSound) {
    const TempDir directory;
    for (int i = 0; i < 20; ++i) {
        put(directory / "f", 2);
        const MappedFile file(directory / "f");
        EXPECT_EQ(byte_of(file, kPage), 'x');
        EXPECT_NO_THROW(check_maps());
        cut(directory / "f", 1);
        EXPECT_EQ(byte_of(file, kPage), '\0');
        EXPECT_THROW(check_maps(), IoError);
    }
}

TEST(MapDamage, IsFoundAfterTheMapWasClosed) {
    const TempDir directory;
    const auto open = [&](bool damage) {
        put(directory / "f", 2);
        const MappedFile file(directory / "f");
        if (damage) {
            cut(directory / "f", 0);
        }
        if (byte_of(file, kPage) == '\0') {
            throw DataError({}, {.where = "parser", .expected = "a header", .got = "zeros"});
        }
        return 7;
    };
    EXPECT_EQ(with_checked_maps([&] { return open(false); }), 7);
    EXPECT_THAT([&] { with_checked_maps([&] { return open(true); }); },
                ThrowsMessage<IoError>(AllOf(HasSubstr((directory / "f").string()), HasSubstr("0 bytes when byte"))));
    EXPECT_THAT([&] { with_checked_maps([]() -> int { throw InvalidArgument("mine"); }); },
                ThrowsMessage<InvalidArgument>("mine"));
    EXPECT_EQ(with_checked_maps([] { return 7; }), 7) << "earlier damage is not this call's";
}

TEST(MapDamage, ManyThreadsMayReadOpenAndClose) {
    const TempDir directory;
    const MappedFile shared(put(directory / "shared", 64));
    put(directory / "sound", 2);
    cut(directory / "shared", 1);
    {
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&, thread] {
                for (std::size_t i = 0; i < 200; ++i) {
                    const MappedFile own(directory / "sound");
                    EXPECT_EQ(byte_of(own, kPage), 'x');
                    const std::size_t page = 1 + (i + 16 * thread) % 63;
                    EXPECT_EQ(byte_of(shared, page * kPage), '\0');
                    EXPECT_THROW(check_maps(), IoError);
                }
            });
        }
    }
    EXPECT_THAT([] { check_maps(); }, ThrowsMessage<IoError>(HasSubstr((directory / "shared").string())));
}

// These run in a separate process, in which the first map installs the handler.

TEST(MapDamageDeathTest, OtherFaultsGoToTheHandlerBefore) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto fault_elsewhere = [] {
        struct sigaction mine = {};
        mine.sa_handler = [](int) { ::_exit(42); };
        ::sigaction(SIGBUS, &mine, nullptr);
        const TempDir directory;
        const MappedFile file(put(directory / "f", 2));
        cut(directory / "f", 1);
        if (byte_of(file, kPage) == '\0') {
            const int fd = ::open(put(directory / "g", 2).c_str(), O_RDONLY | O_CLOEXEC);
            const void* map = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, fd, 0);
            cut(directory / "g", 0);
            static_cast<void>(*static_cast<const volatile char*>(map));
        }
        ::_exit(1);
    };
    EXPECT_EXIT(fault_elsewhere(), ::testing::ExitedWithCode(42), "");
}

TEST(MapDamageDeathTest, ASignalOfAProcessIsNoDamage) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto signalled = [] {
        ::signal(SIGBUS, SIG_DFL);  // a sanitizer's handler would report
        const TempDir directory;
        const MappedFile file(put(directory / "f", 2));
        ::raise(SIGBUS);
        ::_exit(0);
    };
    EXPECT_EXIT(signalled(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace stoker
