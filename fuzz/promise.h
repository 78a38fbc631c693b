// What every target needs: its input as bytes, and a way to say that a promise was broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace stoker::fuzz {

inline std::span<const std::byte> as_input(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const std::byte*>(data), size};
}

// Ends the process where a promise is broken, which is what the fuzzer looks for.
inline void require(bool kept) {
    if (!kept) {
        std::abort();
    }
}

}  // namespace stoker::fuzz
