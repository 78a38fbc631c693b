// What the system says of memory. mincore asks for pages of the cache, whether or not this process has touched them.
#include "stoker/base/in_place.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "stoker/base/prefetch.h"

namespace stoker {
namespace {

std::uint64_t asked(int what) {
    const long found = ::sysconf(what);
    return found > 0 ? static_cast<std::uint64_t>(found) : 0;
}

std::uintptr_t page_size() {
    static const auto size = static_cast<std::uintptr_t>(asked(_SC_PAGESIZE));
    return size;
}

// Where the page begins that this byte is in.
std::uintptr_t page_of(const std::byte* byte) {
    return reinterpret_cast<std::uintptr_t>(byte) / page_size() * page_size();
}

}  // namespace

std::uint64_t machine_memory() {
    return asked(_SC_PHYS_PAGES) * asked(_SC_PAGESIZE);
}

bool in_memory(std::span<const std::byte> mapped) {
    const std::uintptr_t page = page_size();
    std::array<unsigned char, 256> there;
    std::uintptr_t at = page_of(mapped.data());
    const auto end = reinterpret_cast<std::uintptr_t>(mapped.data() + mapped.size());
    for (; at < end; at += there.size() * page) {
        const std::size_t bytes = std::min<std::size_t>(end - at, there.size() * page);
        if (::mincore(reinterpret_cast<void*>(at), bytes, there.data()) != 0) {
            return false;
        }
        const auto pages = static_cast<std::ptrdiff_t>((bytes + page - 1) / page);
        if (!std::all_of(there.begin(), there.begin() + pages, [](unsigned char flags) { return (flags & 1) != 0; })) {
            return false;
        }
    }
    return true;
}

void InPlace::prefetch(std::span<const std::byte> mapped, std::size_t ahead) const {
    if (mapped.size() < kReadBytes) {
        if (ahead < kPrefetchSamples) {
            prefetch_memory(mapped.data(), mapped.size());
        }
    } else if (!shown_ || !in_memory(mapped)) {
        const std::uintptr_t begin = page_of(mapped.data());
        const std::size_t size = reinterpret_cast<std::uintptr_t>(mapped.data()) + mapped.size() - begin;
        ::madvise(reinterpret_cast<void*>(begin), size, MADV_WILLNEED);
    }
}

}  // namespace stoker
