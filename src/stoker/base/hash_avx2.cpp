// Compiled for AVX2, and holds nothing that another file could be linked to.
#include "stoker/base/hash_ahead.h"

namespace stoker {

std::uint64_t hash_long_avx2(const void* bytes, std::size_t size, std::uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace stoker
