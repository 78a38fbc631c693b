// XXH3 that prefetches 6 KB ahead instead of xxHash's default of 0.3 to 0.5 KB, for long inputs. With two threads and
// records of 110 KB this is 1.3 to 1.7 times as fast if the data fit the last-level cache, 1.05 times beyond, and
// makes AVX2 as fast as AVX-512. Must not be included together with hash.h: the inlined functions have the same names.
#pragma once

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#define XXH_PREFETCH_DIST 6144
#include <xxhash.h>

namespace stoker {

// XXH3 with AVX2. Call it only on a processor that has AVX2.
std::uint64_t hash_long_avx2(const void* bytes, std::size_t size, std::uint64_t seed);

}  // namespace stoker
