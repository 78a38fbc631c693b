// For every target: its input as bytes, and a check that ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace stoker::fuzz {

inline std::span<const std::byte> as_input(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const std::byte*>(data), size};
}

// Ends the process if a guarantee is broken, so that the fuzzer reports the input.
inline void require(bool kept) {
    if (!kept) {
        std::abort();
    }
}

}  // namespace stoker::fuzz
