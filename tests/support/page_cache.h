// Files taken out of the system's page cache, as if they had never been read, and what of a map is in there.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "stoker/base/file.h"

namespace stoker::testing {

// Every page of these mapped bytes: for files of our own, of which the system tells.
inline bool in_memory(std::span<const std::byte> mapped) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(mapped.data()) / page * page;
    const std::size_t size = reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size() - begin;
    std::vector<unsigned char> pages(size / page + 1);
    return ::mincore(reinterpret_cast<void*>(begin), size, pages.data()) == 0 &&
           std::all_of(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>((size + page - 1) / page),
                       [](unsigned char flags) { return (flags & 1) != 0; });
}

// False where the file system keeps them, as tmpfs does, or does not say what it keeps. What is mapped and was touched
// stays too.
inline bool drop_from_cache(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return false;
    }
    const bool asked =
        ::fsync(fd) == 0 && File(path).in_memory(0, 1) && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    ::close(fd);
    return asked && !in_memory(MappedFile(path).bytes());
}

}  // namespace stoker::testing
