// Pieces are allocated from slabs one after the other. A freed piece returns its pages at once; a slab without pieces
// is unmapped. BlockPool seldom frees pieces, because it reuses them.
#include "stoker/io/remote/block_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace stoker {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kSlab = 16 << 20;
constexpr std::size_t kSmall = 64 << 10;  // smaller pieces come from the host allocator
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Maps memory that begins at the boundary of a huge page.
std::byte* map_slab(std::size_t size) {
    void* const mapped =
        ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        throw std::bad_alloc();
    }
    auto* const begin = static_cast<std::byte*>(mapped);
    const std::size_t skipped =
        round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
    if (skipped > 0) {
        ::munmap(begin, skipped);
    }
    ::munmap(begin + skipped + size, kHugePage - skipped);
    ::madvise(begin + skipped, size, MADV_HUGEPAGE);  // a hint: without huge pages the system uses small ones
    return begin + skipped;
}

}  // namespace

BlockMemory::~BlockMemory() {
    for (const auto& [begin, slab] : slabs_) {
        ::munmap(begin, slab.size);
    }
}

std::byte* BlockMemory::allocate(std::size_t bytes) {
    if (bytes < kSmall) {
        return host_allocator().allocate(bytes);
    }
    const std::scoped_lock lock(mutex_);
    const std::size_t size = round_up(bytes, kPage);
    auto found = slabs_.find(current_);
    if (found == slabs_.end() || found->second.size - found->second.used < size) {
        const std::size_t slab = std::max(kSlab, round_up(size, kHugePage));
        found = slabs_.emplace(map_slab(slab), Slab{.size = slab}).first;
        current_ = found->first;
    }
    Slab& slab = found->second;
    std::byte* const piece = found->first + slab.used;
    slab.used += size;
    ++slab.live;
    return piece;
}

void BlockMemory::deallocate(std::byte* data, std::size_t bytes) noexcept {
    if (bytes < kSmall) {
        host_allocator().deallocate(data, bytes);
        return;
    }
    const std::scoped_lock lock(mutex_);
    const auto found = std::prev(slabs_.upper_bound(data));
    ::madvise(data, round_up(bytes, kPage), MADV_DONTNEED);
    if (--found->second.live == 0) {
        ::munmap(found->first, found->second.size);
        slabs_.erase(found);  // current_ may still point to it; find() then fails
    }
}

}  // namespace stoker
