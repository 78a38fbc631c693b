// CRC-32C (Castagnoli's polynomial), the checksum of TFRecord and so of TensorBoard's event files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace stoker
