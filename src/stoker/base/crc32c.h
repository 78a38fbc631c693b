// CRC-32C (Castagnoli's polynomial), the checksum of TFRecord and so of TensorBoard's event files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

std::uint32_t crc32c(std::span<const std::byte> bytes);

// TFRecord rotates and offsets its CRCs, because a CRC over data that contains CRCs is weak.
inline std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

// The same as crc32c, by tables: without the processor's instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes);

}  // namespace stoker
