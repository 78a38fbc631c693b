// Chooses AVX2 at run time. Without it, the vectors that every processor of the architecture has (SSE2, NEON).
#include <span>

#include "stoker/base/cpu_features.h"
#include "stoker/base/xxhash_prefetch.h"

namespace stoker {

std::uint64_t hash_long_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

std::uint64_t hash_long_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
#ifdef __x86_64__
    static const bool wide = cpu_features().avx2;
    if (wide) {
        return hash_long_avx2(bytes.data(), bytes.size(), seed);
    }
#endif
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace stoker
