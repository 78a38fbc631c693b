// The bytes of random_erasing, one by one. For nvcc, and internal to ops/.
#pragma once

#include <cstdint>

#include "stoker/base/image.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/output_draw.h"

namespace stoker {

// A value of an image (height, width, channels).
struct Place {
    int y;
    int x;
    int c;
};

// The values of the erased pixels.
struct ErasedBytes {
    std::uint32_t color;  // one byte a channel
    bool noise;           // random bytes instead
    int channels;
};

inline std::uint32_t packed_color(const Color& color) {
    return std::uint32_t{color[0]} | std::uint32_t{color[1]} << 8 | std::uint32_t{color[2]} << 16 |
           std::uint32_t{color[3]} << 24;
}

// Philox 4x32-10, one word of a block; rng.h has the readable one.
__device__ inline std::uint32_t philox_word(std::uint32_t block, std::uint32_t sample, std::uint64_t seed, int word) {
    std::uint32_t a = block;
    std::uint32_t b = sample;
    std::uint32_t c = 0;
    std::uint32_t d = 0;
    std::uint32_t low = static_cast<std::uint32_t>(seed);
    std::uint32_t high = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p = std::uint64_t{0xD2511F53u} * a;
        const std::uint64_t q = std::uint64_t{0xCD9E8D57u} * c;
        a = static_cast<std::uint32_t>(q >> 32) ^ b ^ low;
        c = static_cast<std::uint32_t>(p >> 32) ^ d ^ high;
        b = static_cast<std::uint32_t>(q);
        d = static_cast<std::uint32_t>(p);
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
}

// Row y of the box has its own stream, which fills the row byte by byte.
__device__ inline int erased_byte(const ErasedBytes& with, const OutputDraw& draw, const Place& at) {
    if (!with.noise) {
        return static_cast<int>(with.color >> (8 * at.c) & 255u);
    }
    const int byte = (at.x - draw.erased.left) * with.channels + at.c;
    const std::uint32_t word =
        philox_word(static_cast<std::uint32_t>(byte / 16), static_cast<std::uint32_t>(at.y - draw.erased.top),
                    draw.noise, byte / 4 % 4);
    return static_cast<int>(word >> (8 * (byte % 4)) & 255u);
}

__device__ inline bool contains(const Box& box, const Place& at) {
    return at.y >= box.top && at.y - box.top < box.height && at.x >= box.left && at.x - box.left < box.width;
}

}  // namespace stoker
