// What one thread of gather_cuda.cu computes: erased, cropped and resized bytes. For nvcc, and internal to ops/.
// Products that feed a sum are not fused with it, as on the CPU.
#pragma once

#include "stoker/ops/gather.h"

namespace stoker::gather_device {

constexpr int kResizeShift = 22;  // fraction bits of a weight, as in resize_axis.h
constexpr int kOutsideImage = -1;

struct Arguments {
    const std::uint8_t* images;
    const GatherDraw* draws;
    int height;  // of an image
    int width;
    int channels;
    int out_height;
    int out_width;
    int y_stride;  // weights of an output row
    int x_stride;
    PaddingMode mode;
    std::uint32_t fill;  // one byte a channel
    std::uint32_t erased;
    bool noise;
    float scale[4];
    float bias[4];
};

struct Place {
    int y;
    int x;
    int c;
};

// ---- erasing ----

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

// Row y of the box has a stream of its own, which fills the row byte by byte.
__device__ inline int erased_byte(const Arguments& a, const GatherDraw& draw, const Place& at) {
    if (!a.noise) {
        return static_cast<int>(a.erased >> (8 * at.c) & 255u);
    }
    const int byte = (at.x - draw.erased.left) * a.channels + at.c;
    const std::uint32_t word =
        philox_word(static_cast<std::uint32_t>(byte / 16), static_cast<std::uint32_t>(at.y - draw.erased.top),
                    draw.noise, byte / 4 % 4);
    return static_cast<int>(word >> (8 * (byte % 4)) & 255u);
}

__device__ inline bool contains(const Box& box, const Place& at) {
    return at.y >= box.top && at.y - box.top < box.height && at.x >= box.left && at.x - box.left < box.width;
}

// ---- crop ----

// As source_of in random_crop.cpp.
__device__ inline int source_of(int position, int length, PaddingMode mode) {
    if (position >= 0 && position < length) {
        return position;
    }
    if (mode == PaddingMode::constant) {
        return kOutsideImage;
    }
    if (mode == PaddingMode::edge || length == 1) {
        return position < 0 ? 0 : length - 1;
    }
    const int repeated = mode == PaddingMode::symmetric ? 1 : 0;
    const int period = 2 * length - 2 + 2 * repeated;
    const int place = ((position % period) + period) % period;
    return place < length ? place : period - repeated - place;
}

__device__ inline int cropped_byte(const Arguments& a, const GatherDraw& draw, const std::uint8_t* image,
                                   const Place& at) {
    const int y = source_of(draw.box.top + at.y, a.height, a.mode);
    const int x = source_of(draw.box.left + at.x, a.width, a.mode);
    if (y == kOutsideImage || x == kOutsideImage) {
        return static_cast<int>(a.fill >> (8 * at.c) & 255u);
    }
    return image[(y * a.width + x) * a.channels + at.c];
}

// ---- resize ----

// One axis in shared memory: output i reads inputs first[i] to first[i] + count[i] - 1.
struct Axis {
    int* first;
    int* count;
    int* weights;
    int stride;
};

// The weights of resize_axis.cpp, with its roundings.
__device__ inline void build_axis(int input, int output, const Axis& axis) {
    const double scale = static_cast<double>(input) / output;
    const double support = scale > 1.0 ? scale : 1.0;
    const double inverse = 1.0 / support;
    for (int i = static_cast<int>(threadIdx.x); i < output; i += static_cast<int>(blockDim.x)) {
        int* const weights = axis.weights + i * axis.stride;
        if (input == output) {
            axis.first[i] = i;
            axis.count[i] = 1;
            weights[0] = 1 << kResizeShift;
            continue;
        }
        const double center = __dmul_rn(i + 0.5, scale);
        const int begin = static_cast<int>(center - support + 0.5);
        const int first = begin > 0 ? begin : 0;
        const int end = static_cast<int>(center + support + 0.5);
        const int count = (end < input ? end : input) - first;
        const auto triangle = [&](int k) {
            const double distance = __dmul_rn(k + first - center + 0.5, inverse);
            const double height = 1.0 - (distance < 0 ? -distance : distance);
            return height > 0 ? height : 0.0;
        };
        double sum = 0;
        for (int k = 0; k < count; ++k) {
            sum = __dadd_rn(sum, triangle(k));
        }
        for (int k = 0; k < count; ++k) {
            weights[k] = static_cast<int>(__dadd_rn(0.5, __dmul_rn(triangle(k) / sum, 1 << kResizeShift)));
        }
        axis.first[i] = first;
        axis.count[i] = count;
    }
}

__device__ inline int rounded(int sum) {
    const int value = sum >> kResizeShift;
    return value < 255 ? value : 255;
}

// `box`: the first pixel of the box that is resized. Horizontal first, and rounded after each pass.
__device__ inline int resized_byte(const Arguments& a, const std::uint8_t* box, const Axis& rows, const Axis& columns,
                                   const Place& at) {
    constexpr int kHalf = 1 << (kResizeShift - 1);
    const int* const x_weights = columns.weights + at.x * columns.stride;
    const int* const y_weights = rows.weights + at.y * rows.stride;
    const std::uint8_t* row = box + (rows.first[at.y] * a.width + columns.first[at.x]) * a.channels + at.c;
    int sum = kHalf;
    for (int i = 0; i < rows.count[at.y]; ++i) {
        int line = kHalf;
        for (int k = 0; k < columns.count[at.x]; ++k) {
            line += x_weights[k] * row[k * a.channels];
        }
        sum += y_weights[i] * rounded(line);
        row += a.width * a.channels;
    }
    return rounded(sum);
}

}  // namespace stoker::gather_device
