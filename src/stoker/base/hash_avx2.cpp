// Compiled with -mavx2. It defines no inline function that the linker could pick for other files.
#include "stoker/base/xxhash_prefetch.h"

namespace stoker {

std::uint64_t hash_long_avx2(const void* bytes, std::size_t size, std::uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace stoker
