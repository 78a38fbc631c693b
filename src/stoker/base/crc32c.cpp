// Eight tables: eight bytes in a step, 1.5 GB/s. The instruction of SSE4.2, which every processor with AVX2 has, takes
// eight bytes in three cycles.
#include "stoker/base/crc32c.h"

#include <array>

#include "stoker/base/cpu_features.h"

namespace stoker {

#ifdef __x86_64__
std::uint32_t crc32c_sse42(std::uint32_t crc, const std::byte* bytes, std::size_t size);
#endif

namespace {

constexpr std::size_t kStep = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kStep>;

// tables[n][b]: the CRC of the byte b and n zeros behind it.
constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
        }
        tables[0][i] = crc;
    }
    for (std::size_t n = 1; n < kStep; ++n) {
        for (std::size_t i = 0; i < 256; ++i) {
            tables[n][i] = (tables[n - 1][i] >> 8) ^ tables[0][tables[n - 1][i] & 0xff];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes) {
    std::uint32_t crc = ~0U;
    for (; bytes.size() >= kStep; bytes = bytes.subspan(kStep)) {
        std::uint32_t mixed = 0;
        for (std::size_t i = 0; i < kStep; ++i) {
            const std::uint32_t from_crc = i < 4 ? crc >> (8 * i) : 0U;
            mixed ^= kTables[kStep - 1 - i][(from_crc ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xff];
        }
        crc = mixed;
    }
    for (const std::byte byte : bytes) {
        crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
    }
    return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#ifdef __x86_64__
    static const bool instruction = cpu_features().avx2;
    if (instruction) {
        return ~crc32c_sse42(~0U, bytes.data(), bytes.size());
    }
#endif
    return crc32c_by_tables(bytes);
}

}  // namespace stoker
