// The cached listing against a new one: after every kind of change to a folder, and where nothing may be cached.
#include "stoker/formats/folder/folder_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stoker/base/error.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::put;
using testing::TempDir;

// Longer than the granularity of times on the file systems that tests run on.
constexpr FolderIndexOptions kAny = {.min_cached_files = 0, .min_age_ns = 30'000'000};

void rest() {
    std::this_thread::sleep_for(std::chrono::milliseconds(45));
}

std::string all_of(const FolderIndex& index) {
    std::string text = fmt::format("{}\n", index.left_out());
    for (const std::string& name : index.classes()) {
        text += name + "\n";
    }
    for (std::int64_t i = 0; i < index.size(); ++i) {
        text += fmt::format("{} {}\n", index.label(i), index.name(i));
    }
    return text;
}

template <typename Make>
std::string all_or_error(Make make) {
    try {
        return all_of(make());
    } catch (const Error& error) {
        return error.what();
    }
}

class FolderIndexTest : public ::testing::Test {
  protected:
    FolderIndexTest() { ::setenv("STOKER_CACHE", (cache_ / "c").c_str(), 1); }
    ~FolderIndexTest() override { ::unsetenv("STOKER_CACHE"); }

    fs::path root() const { return dir_ / "root"; }
    std::string listed() const {
        return all_or_error([&] { return FolderIndex::list(root()); });
    }
    std::string opened() const {
        return all_or_error([&] { return FolderIndex::open(root(), kAny); });
    }
    bool cached() const { return FolderIndex::open(root(), kAny).from_cache(); }

    TempDir dir_;
    TempDir cache_;
};

TEST_F(FolderIndexTest, IsCachedAndUsedAgain) {
    for (const char* name : {"b/2.jpg", "b/1.jpg", "a/x/3.png", "a-b/4.webp", "a/5.svg", "a/6.bmp"}) {
        put(root() / name);
    }
    rest();
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
    const FolderIndex index = FolderIndex::open(root(), kAny);
    EXPECT_THAT(index.classes(), ElementsAre("a", "a-b", "b"));
    EXPECT_EQ(index.name(1), "a/x/3.png");
    EXPECT_EQ(index.label(2), 1);
    EXPECT_EQ(index.left_out(), "left out: 1 .svg file (a/5.svg): convert to .png or .jpg");
    EXPECT_EQ(opened(), listed());
    // By any path to the same folder.
    fs::create_directory_symlink(root(), dir_ / "link");
    EXPECT_TRUE(FolderIndex::open(dir_ / "link", kAny).from_cache());
    EXPECT_TRUE(FolderIndex::open(root() / "a/..", kAny).from_cache());
    // By default small folders are not cached.
    const TempDir other_cache;
    ::setenv("STOKER_CACHE", other_cache.path().c_str(), 1);
    for (int twice = 0; twice < 2; ++twice) {
        EXPECT_FALSE(FolderIndex::open(root()).from_cache());
    }
}

TEST_F(FolderIndexTest, RecentChangesPreventCaching) {
    put(root() / "a/1.jpg");
    const FolderIndexOptions long_rest = {.min_cached_files = 0, .min_age_ns = 3'600'000'000'000};
    for (int twice = 0; twice < 2; ++twice) {
        EXPECT_FALSE(FolderIndex::open(root(), long_rest).from_cache());
    }
}

TEST_F(FolderIndexTest, EveryChangeIsFound) {
    std::mt19937 random(11);
    const auto one_of = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
    const TempDir elsewhere;
    put(elsewhere / "far/0.jpg");
    const auto some_path = [&] {
        std::string path = fmt::format("c{}", one_of(4));
        for (int depth = one_of(3); depth > 0; --depth) {
            path += fmt::format("/{}{}", one_of(2) == 0 ? "s" : "s-", one_of(2));
        }
        return path;
    };
    const auto change = [&] {
        const fs::path folder = root() / some_path();
        const fs::path file = folder / fmt::format("{}.{}", one_of(6), one_of(5) == 0 ? "svg" : "jpg");
        std::error_code impossible;  // then nothing has changed
        switch (one_of(8)) {
            case 0:
                fs::remove(file, impossible);
                break;
            case 1:
                fs::rename(file, folder / fmt::format("{}.png", one_of(3)), impossible);
                break;
            case 2:
                fs::create_directories(folder, impossible);
                break;
            case 3:
                fs::remove_all(folder, impossible);
                break;
            case 4:
                fs::create_directory_symlink(elsewhere / "far", folder / "linked", impossible);
                break;
            case 5:
                put(elsewhere / fmt::format("far/{}/{}.jpg", one_of(2), one_of(9)));
                break;
            case 6:
                fs::rename(folder, root() / some_path(), impossible);
                break;
            default:
                fs::create_directories(folder, impossible);
                std::ofstream(file) << "x";
        }
    };
    int reused = 0;
    for (int i = 0; i < 20; ++i) {
        put(root() / some_path() / fmt::format("{}.jpg", one_of(6)));
    }
    for (int round = 0; round < 60; ++round) {
        rest();
        ASSERT_EQ(opened(), listed()) << round;  // and caches it
        try {
            reused += cached() ? 1 : 0;
        } catch (const DataError&) {  // all images of a class are gone
            fs::create_directories(root() / "c0");
        }
        ASSERT_EQ(opened(), listed()) << round;
        change();
        ASSERT_EQ(opened(), listed()) << round;
    }
    EXPECT_GT(reused, 20);
}

// tar and rsync set times back after they have put files into a folder.
TEST_F(FolderIndexTest, ATimeThatIsSetBackDoesNotHideAChange) {
    put(root() / "a/1.jpg");
    rest();
    const auto before = fs::last_write_time(root() / "a");
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
    put(root() / "a/2.jpg");
    fs::last_write_time(root() / "a", before);
    EXPECT_EQ(FolderIndex::open(root(), kAny).size(), 2);
}

TEST_F(FolderIndexTest, LinksWhoseTargetBecomesAFolder) {
    put(root() / "a/1.jpg");
    fs::create_symlink(dir_ / "later", root() / "a/l.jpg");
    fs::create_symlink(dir_ / "later", root() / "z");
    rest();
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
    put(dir_ / "later/2.jpg");
    EXPECT_EQ(opened(), listed());
    EXPECT_THAT(FolderIndex::open(root(), kAny).classes(), ElementsAre("a", "z"));
    rest();
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
    fs::rename(dir_ / "later", dir_ / "gone");
    EXPECT_EQ(opened(), listed());
}

TEST_F(FolderIndexTest, FoldersOfManyLinksAreNotCached) {
    put(root() / "a/1.jpg");
    for (int i = 0; i < 4100; ++i) {
        fs::create_symlink(root() / "a/1.jpg", root() / fmt::format("a/l{}.jpg", i));
    }
    rest();
    EXPECT_FALSE(cached());
    EXPECT_FALSE(cached());
    EXPECT_EQ(opened(), listed());
}

TEST_F(FolderIndexTest, WorksWithoutACache) {
    put(root() / "a/1.jpg");
    put(root() / "b/1.jpg");
    rest();
    std::ofstream(cache_ / "c") << "no folder";
    EXPECT_FALSE(cached());
    EXPECT_FALSE(cached());
    EXPECT_EQ(opened(), listed());
    ::unsetenv("STOKER_CACHE");
    const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
    ::unsetenv("HOME");
    ::unsetenv("XDG_CACHE_HOME");
    EXPECT_EQ(opened(), listed());
    ::setenv("HOME", home.c_str(), 1);
}

TEST_F(FolderIndexTest, ADamagedCacheFileIsReplaced) {
    put(root() / "a/1.jpg");
    rest();
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
    for (const auto& file : fs::recursive_directory_iterator(cache_.path())) {
        if (file.is_regular_file()) {
            fs::resize_file(file.path(), file.file_size() - 1);
        }
    }
    EXPECT_FALSE(cached());
    EXPECT_TRUE(cached());
}

TEST_F(FolderIndexTest, ErrorsAreThoseOfAListing) {
    EXPECT_EQ(opened(), listed());
    put(root() / "a/1.jpg");
    fs::create_directories(root() / "b");
    EXPECT_EQ(opened(), listed());
    fs::create_directory_symlink(root(), root() / "a/circle");
    EXPECT_EQ(opened(), listed());
}

}  // namespace
}  // namespace stoker
