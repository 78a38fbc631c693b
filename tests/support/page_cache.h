// Files taken out of the system's page cache, as if they had never been read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "stoker/base/file.h"
#include "stoker/base/in_place.h"

namespace stoker::testing {

// False where the file system keeps them, as tmpfs does. What is mapped and was touched stays too.
inline bool drop_from_cache(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return false;
    }
    const bool asked = ::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    ::close(fd);
    const MappedFile file(path);
    return asked && !in_memory(file.bytes());
}

}  // namespace stoker::testing
