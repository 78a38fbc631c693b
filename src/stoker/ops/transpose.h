// Transposes kLanes rows of bytes and back, in squares of 16 x 16. Internal to ops/.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "stoker/ops/kernels.h"

namespace stoker {

static_assert(kLanes == 16, "the network below is for 16 x 16");
using ByteLine [[gnu::vector_size(kLanes)]] = std::uint8_t;

// The size of kLanes transposed rows of `bytes` bytes.
inline std::size_t transposed_bytes(std::size_t bytes) {
    return (bytes + kLanes - 1) / kLanes * kLanes * kLanes;
}

// Interleaving lines i and i + 8 four times transposes a 16 x 16 square.
inline void transpose(ByteLine (&lines)[kLanes]) {
    for (int round = 0; round < 4; ++round) {
        ByteLine next[kLanes];
        for (int i = 0; i < kLanes / 2; ++i) {
            next[2 * i] =
                __builtin_shufflevector(lines[i], lines[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(lines[i], lines[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                      29, 14, 30, 15, 31);
        }
        std::copy_n(next, kLanes, lines);
    }
}

// kLanes rows of `bytes` bytes to `out` (bytes rounded up to kLanes, kLanes), zeros after the end.
inline void transpose_rows(const std::uint8_t* const (&rows)[kLanes], std::size_t bytes, std::uint8_t* out) {
    for (std::size_t begin = 0; begin < bytes; begin += kLanes) {
        const std::size_t length = std::min<std::size_t>(kLanes, bytes - begin);
        ByteLine lines[kLanes] = {};
        for (int i = 0; i < kLanes; ++i) {
            if (length == kLanes) {
                std::memcpy(&lines[i], rows[i] + begin, kLanes);
            } else {
                std::memcpy(&lines[i], rows[i] + begin, length);
            }
        }
        transpose(lines);
        std::memcpy(out + begin * kLanes, lines, sizeof(lines));
    }
}

// The inverse: `transposed` (bytes rounded up to kLanes, kLanes) to the first `count` rows.
inline void untranspose_rows(const std::uint8_t* transposed, std::size_t bytes, std::uint8_t* const (&rows)[kLanes],
                             int count) {
    for (std::size_t begin = 0; begin < bytes; begin += kLanes) {
        const std::size_t length = std::min<std::size_t>(kLanes, bytes - begin);
        ByteLine lines[kLanes];
        std::memcpy(lines, transposed + begin * kLanes, sizeof(lines));
        transpose(lines);
        for (int i = 0; i < count; ++i) {
            if (length == kLanes) {
                std::memcpy(rows[i] + begin, &lines[i], kLanes);
            } else {
                std::memcpy(rows[i] + begin, &lines[i], length);
            }
        }
    }
}

}  // namespace stoker
