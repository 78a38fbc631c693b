// Eight bytes a step from eight tables.
#include "stoker/base/crc32c.h"

#include <array>

namespace stoker {
namespace {

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables() {
    CrcTables tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
        }
        tables[0][i] = value;
    }
    for (std::uint32_t i = 0; i < 256; ++i) {
        for (std::size_t table = 1; table < 8; ++table) {
            const std::uint32_t before = tables[table - 1][i];
            tables[table][i] = (before >> 8) ^ tables[0][before & 0xff];
        }
    }
    return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
    std::uint32_t crc = ~before;
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
    while (bytes.size() >= 8) {
        const std::uint32_t low = crc ^ (at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24);
        crc = kCrcTables[7][low & 0xff] ^ kCrcTables[6][(low >> 8) & 0xff] ^ kCrcTables[5][(low >> 16) & 0xff] ^
              kCrcTables[4][low >> 24] ^ kCrcTables[3][at(4)] ^ kCrcTables[2][at(5)] ^ kCrcTables[1][at(6)] ^
              kCrcTables[0][at(7)];
        bytes = bytes.subspan(8);
    }
    for (const std::byte byte : bytes) {
        crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
    }
    return ~crc;
}

}  // namespace stoker
