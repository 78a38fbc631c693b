// Dropping files from the page cache, and checking whether mapped bytes are in it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <span>
#include <vector>

#include "stoker/base/file.h"

namespace stoker::testing {

// Which pages of these mapped bytes are in the page cache; empty if unknown. Works for files of this user only.
inline std::vector<bool> pages_in_memory(std::span<const std::byte> mapped) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(mapped.data()) / page * page;
    const std::size_t size = reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size() - begin;
    std::vector<unsigned char> flags((size + page - 1) / page);
    std::vector<bool> pages;
    if (::mincore(reinterpret_cast<void*>(begin), size, flags.data()) == 0) {
        std::ranges::transform(flags, std::back_inserter(pages), [](unsigned char flag) { return (flag & 1) != 0; });
    }
    return pages;
}

inline bool in_memory(std::span<const std::byte> mapped) {
    const std::vector<bool> pages = pages_in_memory(mapped);
    return !pages.empty() && std::ranges::find(pages, false) == pages.end();
}

// Returns false if the file system does not drop all pages, as tmpfs, or cannot say what it has cached. Pages that are
// mapped and were used are not dropped either. A busy system drops a part only, so it is asked several times.
inline bool drop_from_cache(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return false;
    }
    std::byte first{};  // once read, it is in memory where the file system can say so
    const bool cached = ::fsync(fd) == 0 && ::pread(fd, &first, 1, 0) == 1 && File(path).in_memory(0, 1);
    bool dropped = false;
    for (int tries = 0; cached && !dropped && tries < 20; ++tries) {
        const bool asked = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
        const std::vector<bool> pages = pages_in_memory(MappedFile(path).bytes());
        dropped = asked && !pages.empty() && std::ranges::find(pages, true) == pages.end();
    }
    ::close(fd);
    return dropped;
}

// A reader's treatment of a piece of a file that was not in memory, and of the same piece in memory.
struct ColdAndWarm {
    bool was_cold = false;  // false where the file system drops nothing
    bool copied_cold = false;
    bool viewed_warm = false;
};

// `open` makes a reader: a function that reads the piece and says whether it copied it. The system may drop or fetch
// pages at any time, so both cases are tried until they were seen, at most 20 times. Each try makes a new reader,
// because the system does not drop pages that a reader has mapped and used.
template <typename Open>
ColdAndWarm read_cold_and_warm(const std::filesystem::path& file, std::uint64_t offset, std::size_t size, Open open) {
    ColdAndWarm seen;
    for (int tries = 0; tries < 20 && !(seen.copied_cold && seen.viewed_warm); ++tries) {
        const auto is_copy = open();
        drop_from_cache(file);
        // Not by File::in_memory: that starts a read, which a busy machine may have done before the reader looks.
        if (!in_memory(MappedFile(file).bytes().subspan(offset + size / 2, 1))) {
            seen.was_cold = true;
            seen.copied_cold = is_copy() || seen.copied_cold;
        }
        seen.viewed_warm = !is_copy() || seen.viewed_warm;
    }
    return seen;
}

}  // namespace stoker::testing
