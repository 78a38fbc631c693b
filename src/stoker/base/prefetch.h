// Prefetches bytes into the processor's cache. The instruction ignores addresses that are not mapped or not readable,
// so callers need not check them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace stoker {

// A core's cache has room for this many samples, and this many bytes of each.
inline constexpr std::size_t kPrefetchSamples = 128;
inline constexpr std::size_t kPrefetchBytes = 2048;

inline void prefetch_memory(const std::byte* from, std::size_t size) {
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < std::min(size, kPrefetchBytes); at += kLine) {
        __builtin_prefetch(from + at);
    }
}

// The first of `indices`: those worth prefetching.
template <typename Index>
std::span<const Index> prefetched(std::span<const Index> indices) {
    return indices.first(std::min(indices.size(), kPrefetchSamples));
}

}  // namespace stoker
