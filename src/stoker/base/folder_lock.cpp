// The system calls behind folder_lock.h.
#include "stoker/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {

std::optional<FolderLock> FolderLock::try_lock(const std::filesystem::path& path, bool follow) {
    FolderLock lock;
    lock.folder_ = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)));
    if (lock.folder_.get() < 0) {
        throw errno_error(path.string(), "a folder that can be read and written");
    }
    if (::flock(lock.folder_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            return std::nullopt;
        }
        lock.problem_ = errno_text();  // ENOLCK, EOPNOTSUPP, ENOSYS: some network and FUSE file systems
    }
    return lock;
}

FolderLock::FolderLock(const std::filesystem::path& path, bool follow) {
    std::optional<FolderLock> lock = try_lock(path, follow);
    if (!lock) {
        throw IoError(
            {.where = path.string(), .expected = "a folder to write", .got = "one that another process is writing"});
    }
    *this = std::move(*lock);
}

bool FolderLock::holds(const std::filesystem::path& path) const {
    struct stat held = {};
    struct stat named = {};
    return ::fstat(folder_.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

}  // namespace stoker
