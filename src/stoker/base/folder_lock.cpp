// File systems without locks answer with an error: there the writer goes on, as it could do nothing else.
#include "stoker/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {

FolderLock::FolderLock(const std::filesystem::path& path, bool follow)
    : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW))) {
    const auto refuse = [&](std::string got) {
        throw IoError({.where = path.string(), .expected = "a folder to write", .got = std::move(got)});
    };
    if (fd_ < 0) {
        refuse(errno_text());
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        ::close(fd_);
        refuse("one that another process is writing");
    }
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

FolderLock::~FolderLock() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

bool FolderLock::holds(const std::filesystem::path& path) const {
    struct stat held = {};
    struct stat named = {};
    return ::fstat(fd_, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

}  // namespace stoker
