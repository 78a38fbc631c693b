// A hint to the processor that bytes are wanted soon. Memory that is not there, or not to be read, is passed over: no
// fault comes of it, so that a place need not be checked first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace stoker {

// Of so many samples at a time, and so many bytes of each, the cache of a core has room.
inline constexpr std::size_t kPrefetchSamples = 128;
inline constexpr std::size_t kPrefetchBytes = 2048;

inline void prefetch_memory(const std::byte* from, std::size_t size) {
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < std::min(size, kPrefetchBytes); at += kLine) {
        __builtin_prefetch(from + at);
    }
}

// The indices that are worth a hint.
template <typename Index>
std::span<const Index> prefetched(std::span<const Index> indices) {
    return indices.first(std::min(indices.size(), kPrefetchSamples));
}

}  // namespace stoker
