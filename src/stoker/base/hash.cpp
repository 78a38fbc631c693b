// xxHash's own choice among SSE2, AVX2 and AVX-512; on other processors there is nothing to choose. Not by way of
// hash.h: its inlined functions have the same names.
#include <cstddef>
#include <cstdint>
#include <span>

#if (defined(__x86_64__) || defined(__i386__)) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // makes XXH3_64bits_withSeed the choosing one
#else
#include <xxhash.h>
#endif

namespace stoker {

std::uint64_t hash_long_bytes(std::span<const std::byte> bytes, std::uint64_t seed);

std::uint64_t hash_long_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace stoker
