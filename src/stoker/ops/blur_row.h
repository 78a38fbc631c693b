// The inner loop of gaussian_blur in plain C++. Each instruction set compiles it again, and the compiler vectorises it.
// All sets compute the same bits: float32 without fused operations. Internal to ops/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/ops/gaussian_blur.h"

namespace stoker {

struct BlurRow {
    const std::uint8_t* const* rows;  // the padded input rows from y - radius to y + radius, each with radius pixels
                                      // more on both sides
    std::span<const float> down;      // weights of the middle row and of its neighbours, outwards
    std::span<const float> across;    // the same for columns
    std::size_t channels;             // 1..4
    std::uint8_t* out;                // `values` bytes
    std::size_t values;
};

struct BlurKernel {
    const char* name;  // plain, avx2, avx512
    void (*run)(const BlurRow& row);
};

extern const BlurKernel kPlainBlurKernel;

// The vector kernels that this processor supports, slowest first. Only on x86-64.
std::vector<BlurKernel> x86_blur_kernels();

// All kernels that this processor supports, slowest first. gaussian_blur uses the last.
std::span<const BlurKernel> blur_kernels();

namespace blur_loops {

inline constexpr std::size_t kBlock = 1024;                            // values
inline constexpr std::size_t kHalo = std::size_t{4} * kMaxBlurKernel;  // values around a block, at most

// Blurs a block downwards and then across.
[[gnu::always_inline]] inline void blur_block(const BlurRow& row, std::size_t begin, std::size_t count) {
    float column[kBlock + kHalo];
    float sum[kBlock];
    const std::size_t middle = row.down.size() - 1;
    const std::size_t side = (row.across.size() - 1) * row.channels;
    const std::size_t wide = count + 2 * side;
    const std::uint8_t* from = row.rows[middle] + begin;
    for (std::size_t i = 0; i < wide; ++i) {
        column[i] = row.down[0] * static_cast<float>(from[i]);
    }
    for (std::size_t k = 1; k < row.down.size(); ++k) {
        const float weight = row.down[k];
        const std::uint8_t* above = row.rows[middle - k] + begin;
        const std::uint8_t* below = row.rows[middle + k] + begin;
        for (std::size_t i = 0; i < wide; ++i) {
            column[i] += weight * static_cast<float>(std::int32_t{above[i]} + std::int32_t{below[i]});
        }
        asm volatile("");  // otherwise GCC joins two iterations to one loop, which it does not vectorise
    }
    const float* here = column + side;
    for (std::size_t i = 0; i < count; ++i) {
        sum[i] = row.across[0] * here[i];
    }
    for (std::size_t k = 1; k < row.across.size(); ++k) {
        const float weight = row.across[k];
        const float* left = here - k * row.channels;
        const float* right = here + k * row.channels;
        for (std::size_t i = 0; i < count; ++i) {
            sum[i] += weight * (left[i] + right[i]);
        }
    }
    constexpr float kShift = 0x1.8p23f;  // the addition rounds to an integer, ties to even
    std::uint8_t* out = row.out + begin;
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((sum[i] + kShift) - kShift));
    }
}

[[gnu::always_inline]] inline void blur(const BlurRow& row) {
    for (std::size_t begin = 0; begin < row.values; begin += kBlock) {
        blur_block(row, begin, std::min(kBlock, row.values - begin));
    }
}

}  // namespace blur_loops
}  // namespace stoker
