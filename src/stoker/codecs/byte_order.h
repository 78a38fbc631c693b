// Big-endian and little-endian integers of 1 to 4 bytes. The caller checks that the bytes exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

inline std::uint32_t load_be(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value = value << 8 | std::to_integer<std::uint32_t>(bytes[offset + i]);
    }
    return value;
}

inline std::uint32_t load_le(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = size; i > 0; --i) {
        value = value << 8 | std::to_integer<std::uint32_t>(bytes[offset + i - 1]);
    }
    return value;
}

}  // namespace stoker
