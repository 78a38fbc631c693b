// Compiled with -msse4.2. It defines no inline function that the linker could pick for other files.
#include <nmmintrin.h>

#include <cstddef>
#include <cstdint>

namespace stoker {

std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* bytes, std::size_t size);

std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* bytes, std::size_t size) {
    std::uint64_t wide = crc;
    for (; size >= sizeof wide; size -= sizeof wide, bytes += sizeof wide) {
        std::uint64_t word = 0;
        __builtin_memcpy(&word, bytes, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = static_cast<std::uint32_t>(wide);
    for (std::size_t i = 0; i < size; ++i) {
        crc = _mm_crc32_u8(crc, static_cast<unsigned char>(bytes[i]));
    }
    return crc;
}

}  // namespace stoker
