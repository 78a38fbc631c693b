// CRC-32C, Castagnoli's polynomial as iSCSI, S3 and TFRecord have it: a checksum against damage, not against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

// `before` continues an earlier piece's value.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace stoker
