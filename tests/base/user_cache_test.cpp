// The user cache returns the content that was stored with the same stamp, or nothing, even if its files are damaged.
#include "stoker/base/user_cache.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/base/file.h"
#include "support/environment_variable.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::EnvironmentVariable;
using testing::TempDir;

std::string text_of(const std::optional<Buffer>& content) {
    return content ? std::string(reinterpret_cast<const char*>(content->data()), content->size()) : "nothing";
}

std::string read(std::string_view name, std::string_view stamp, std::string_view kind = "kind") {
    return text_of(read_user_cache(kind, name, stamp));
}

bool write(std::string_view name, std::string_view stamp, std::string_view content, std::string_view kind = "kind") {
    return write_user_cache(kind, name, stamp, as_bytes(content));
}

class UserCache : public ::testing::Test {
  protected:
    fs::path only_file() const {
        fs::path found;
        int files = 0;
        for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
            if (entry.is_regular_file()) {
                found = entry.path();
                ++files;
            }
        }
        EXPECT_EQ(files, 1);
        return found;
    }

    TempDir dir_;
    EnvironmentVariable cache_{"STOKER_CACHE", (dir_ / "cache").string()};
};

TEST(UserCacheDir, GoesByTheVariables) {
    const EnvironmentVariable cache("STOKER_CACHE", "/a");
    const EnvironmentVariable all("XDG_CACHE_HOME", "/b");
    const EnvironmentVariable home("HOME", "/c");
    EXPECT_EQ(user_cache_dir(), "/a");
    const EnvironmentVariable no_cache("STOKER_CACHE", std::nullopt);
    EXPECT_EQ(user_cache_dir(), "/b/stoker");
    const EnvironmentVariable empty_all("XDG_CACHE_HOME", "");  // the standard: as if it were not set
    EXPECT_EQ(user_cache_dir(), "/c/.cache/stoker");
    const EnvironmentVariable no_home("HOME", std::nullopt);
    EXPECT_EQ(user_cache_dir(), "");
    EXPECT_FALSE(write("name", "stamp", "content"));
    EXPECT_EQ(read("name", "stamp"), "nothing");
}

TEST_F(UserCache, ReturnsWhatWasStored) {
    EXPECT_EQ(read("name", "stamp"), "nothing");
    EXPECT_TRUE(write("name", "stamp", "content"));
    EXPECT_EQ(read("name", "stamp"), "content");
    EXPECT_TRUE(write("name", "stamp", ""));
    EXPECT_EQ(read("name", "stamp"), "");
    EXPECT_TRUE(write("name", "", "no stamp"));
    EXPECT_EQ(read("name", ""), "no stamp");
    const std::string large(1 << 20, 'l');
    EXPECT_TRUE(write("name", "stamp", large));
    EXPECT_EQ(read("name", "stamp"), large);
}

TEST_F(UserCache, RemovesUnusedFiles) {
    const auto age = [](const fs::path& file, int days) {
        fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
    };
    EXPECT_TRUE(write("used", "1", "content", "other"));
    const fs::path used = only_file();
    const fs::path folder = dir_ / "cache/kind";
    fs::create_directories(folder);
    fs::copy_file(used, folder / used.filename());
    for (const char* name : {"old", "young", "young.tmp-7-0", "old.tmp-7-0"}) {
        write_file(folder / name, std::string_view("x"));
        age(folder / name, std::string_view(name).starts_with("old") ? 91 : name[5] == '.' ? 0 : 89);
    }
    age(folder / "old.tmp-7-0", 2);
    age(folder / used.filename(), 89);
    EXPECT_EQ(read("used", "1"), "content");  // renews the time of use
    EXPECT_LT(fs::file_time_type::clock::now() - fs::last_write_time(folder / used.filename()), std::chrono::hours(24));
    EXPECT_TRUE(write("name", "1", "content"));
    EXPECT_FALSE(fs::exists(folder / "old"));
    EXPECT_FALSE(fs::exists(folder / "old.tmp-7-0"));
    EXPECT_TRUE(fs::exists(folder / "young"));
    EXPECT_TRUE(fs::exists(folder / "young.tmp-7-0"));  // another process is writing it
    EXPECT_EQ(read("used", "1"), "content");
    EXPECT_EQ(read("name", "1"), "content");
}

TEST_F(UserCache, KeepsNamesAndKindsApart) {
    EXPECT_TRUE(write("/a/data.tar", "1", "first"));
    EXPECT_TRUE(write("/b/data.tar", "1", "second"));
    EXPECT_TRUE(write("/a/data.tar", "1", "third", "other"));
    EXPECT_EQ(read("/a/data.tar", "1"), "first");
    EXPECT_EQ(read("/b/data.tar", "1"), "second");
    EXPECT_EQ(read("/a/data.tar", "1", "other"), "third");
    EXPECT_EQ(read("/c/data.tar", "1"), "nothing");
}

TEST_F(UserCache, ADifferentStampGivesNothing) {
    EXPECT_TRUE(write("name", "10 bytes", "content"));
    for (const char* stamp : {"", "1", "10 byte", "10 bytes ", "10 bytes co", "20 bytes", "10 bytescontent"}) {
        EXPECT_EQ(read("name", stamp), "nothing") << stamp;
    }
    EXPECT_TRUE(write("name", "20 bytes", "newer"));
    EXPECT_EQ(read("name", "10 bytes"), "nothing");
    EXPECT_EQ(read("name", "20 bytes"), "newer");
}

TEST_F(UserCache, ADamagedFileGivesNothing) {
    EXPECT_TRUE(write("name", "stamp", "some content"));
    const fs::path file = only_file();
    const std::string good = read_text(file);
    const auto put = [&](std::string_view content) {
        std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    };
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        put(bad);
        EXPECT_EQ(read("name", "stamp"), "nothing") << at;
        put(good.substr(0, at));
        EXPECT_EQ(read("name", "stamp"), "nothing") << at;
    }
    put(good + "x");
    EXPECT_EQ(read("name", "stamp"), "nothing");
    put(good);
    EXPECT_EQ(read("name", "stamp"), "some content");
}

TEST_F(UserCache, AnUnusableDirectoryIsNoFailure) {
    {
        const EnvironmentVariable in_a_file("STOKER_CACHE", (dir_ / "file/cache").string());
        std::ofstream(dir_ / "file") << "x";
        EXPECT_FALSE(write("name", "stamp", "content"));
        EXPECT_EQ(read("name", "stamp"), "nothing");
    }
    EXPECT_TRUE(write("name", "stamp", "content"));
    fs::remove(dir_ / "file");
    const fs::path file = only_file();
    fs::remove(file);
    fs::create_directory(file);  // in place of the file
    EXPECT_EQ(read("name", "stamp"), "nothing");
    EXPECT_FALSE(write("name", "stamp", "content"));
}

TEST_F(UserCache, AReadOnlyDirectoryIsNoFailure) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root may write everywhere";
    }
    fs::create_directories(dir_ / "cache");
    ::chmod((dir_ / "cache").c_str(), 0500);
    EXPECT_FALSE(write("name", "stamp", "content"));
    ::chmod((dir_ / "cache").c_str(), 0700);
}

}  // namespace
}  // namespace stoker
