// One lock per folder; a folder that was replaced is not the one that was locked.
#include "stoker/base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/failing_flock.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempDir;
using ::testing::ThrowsMessage;

TEST(FolderLock, OneAtATime) {
    const TempDir dir;
    std::optional<FolderLock> first(dir.path());
    EXPECT_THAT([&] { FolderLock second(dir.path()); },
                ThrowsMessage<IoError>(HasSubstr("another process is writing")));
    EXPECT_FALSE(FolderLock::try_lock(dir.path()).has_value());
    FolderLock moved = std::move(*first);
    first.reset();
    EXPECT_THROW(FolderLock(dir.path()), IoError);
    { const FolderLock taken = std::move(moved); }
    EXPECT_NO_THROW(FolderLock(dir.path()));
}

TEST(FolderLock, SucceedsWithAReasonOnAFileSystemWithoutLocks) {
    const TempDir dir;
    for (const int code : {ENOLCK, EOPNOTSUPP}) {
        const testing::FailingFlock no_locks(code);
        const FolderLock first(dir.path());
        const std::optional<FolderLock> second = FolderLock::try_lock(dir.path());
        ASSERT_TRUE(second);
        EXPECT_EQ(first.problem(), errno_text(code));
        EXPECT_EQ(second->problem(), errno_text(code));
        EXPECT_TRUE(second->holds(dir.path()));
    }
    EXPECT_EQ(FolderLock(dir.path()).problem(), "");
}

TEST(FolderLock, KnowsItsFolder) {
    const TempDir dir;
    fs::create_directory(dir / "x");
    const FolderLock lock(dir / "x");
    EXPECT_TRUE(lock.holds(dir / "x"));
    fs::remove(dir / "x");
    EXPECT_FALSE(lock.holds(dir / "x"));
    fs::create_directory(dir / "x");
    EXPECT_FALSE(lock.holds(dir / "x"));
}

TEST(FolderLock, RefusesWhatIsNoFolder) {
    const TempDir dir;
    write_file(dir / "file", std::string_view("x"));
    fs::create_directory_symlink(dir.path(), dir / "link");
    EXPECT_THAT([&] { FolderLock lock(dir / "none"); }, ThrowsMessage<IoError>(HasSubstr("it does not exist")));
    EXPECT_THROW(FolderLock(dir / "file"), IoError);
    EXPECT_THROW(FolderLock(dir / "link", false), IoError);
    EXPECT_NO_THROW(FolderLock(dir / "link"));
}

}  // namespace
}  // namespace stoker
