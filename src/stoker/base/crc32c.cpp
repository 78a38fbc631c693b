// One table of 256 values. Its input is small: the records of an event file.
#include "stoker/base/crc32c.h"

#include <array>

namespace stoker {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        table[i] = i;
        for (int bit = 0; bit < 8; ++bit) {
            table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0x82f63b78U : 0U);
        }
    }
    return table;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
    static constexpr std::array<std::uint32_t, 256> kTable = make_table();
    std::uint32_t crc = ~0U;
    for (const std::byte byte : bytes) {
        crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
    }
    return ~crc;
}

}  // namespace stoker
