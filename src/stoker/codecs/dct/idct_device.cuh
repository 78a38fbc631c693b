// The inverse DCT of one block by one thread, in place, with the arithmetic and the wrapping of the plain kernel
// (jpeg/block_kernels.cpp). For nvcc, and internal to codecs/.
#pragma once

#include <cstdint>

namespace stoker::idct_device {

// kZigzag (jpeg_frame.h), readable for kernels.
__device__ const std::uint8_t kNaturalIndex[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                                   12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                                   35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                                   58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

__device__ inline std::uint32_t product(int value, int factor) {
    return static_cast<std::uint32_t>(value) * static_cast<std::uint32_t>(factor);
}

__device__ inline int as16(int value) {
    return static_cast<std::int16_t>(value);
}

// Eight values and their inverse transform, rounded by `shift` bits.
__device__ inline void transform(const int (&in)[8], int shift, int (&out)[8]) {
    const std::uint32_t even2 = product(in[2], 4433) - product(in[6], 10704);
    const std::uint32_t even3 = product(in[2], 10703) + product(in[6], 4433);
    const std::uint32_t sum = product(as16(in[0] + in[4]), 8192);
    const std::uint32_t difference = product(as16(in[0] - in[4]), 8192);
    const std::uint32_t even[4] = {sum + even3, difference + even2, difference - even2, sum - even3};
    const int odd73 = as16(in[7] + in[3]);
    const int odd51 = as16(in[5] + in[1]);
    const std::uint32_t z3 = product(odd51, 9633) - product(odd73, 6436);
    const std::uint32_t z4 = product(odd73, 9633) + product(odd51, 6437);
    const std::uint32_t odd[4] = {
        product(in[1], 4926) - product(in[7], 7373) + z4, product(in[3], 4177) - product(in[5], 20995) + z3,
        z4 - product(in[5], 4176) - product(in[3], 20995), z3 - product(in[7], 4927) - product(in[1], 7373)};
    const std::uint32_t half = 1u << (shift - 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[i] = static_cast<int>(even[i] + odd[i] + half) >> shift;
        out[7 - i] = static_cast<int>(even[i] - odd[i] + half) >> shift;
    }
}

__device__ inline int clamped(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

// The columns of a quantised block (8, 8), natural order; `quant` (8, 8). `first_row_only`: rows 1 to 7 are zero.
__device__ inline void columns(std::int16_t* block, const std::uint16_t* quant, bool first_row_only) {
    for (int u = 0; u < 8; ++u) {
        int in[8];
        int out[8];
#pragma unroll
        for (int v = 0; v < 8; ++v) {
            in[v] = as16(block[8 * v + u] * quant[8 * v + u]);
        }
        transform(in, 11, out);
#pragma unroll
        for (int v = 0; v < 8; ++v) {
            block[8 * v + u] =
                static_cast<std::int16_t>(first_row_only ? as16(out[v]) : clamped(out[v], -32768, 32767));
        }
    }
}

// Row v after the columns: eight samples, the first in the lowest byte.
__device__ inline std::uint64_t row_of_samples(const std::int16_t* block, int v) {
    int in[8];
    int out[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) {
        in[u] = block[8 * v + u];
    }
    transform(in, 18, out);
    std::uint64_t samples = 0;
#pragma unroll
    for (int u = 0; u < 8; ++u) {
        samples |= static_cast<std::uint64_t>(clamped(out[u] + 128, 0, 255)) << (8 * u);
    }
    return samples;
}

}  // namespace stoker::idct_device
