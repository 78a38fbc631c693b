// The resize filter on a device: the weights of an axis in shared memory, and one pixel. For nvcc, and internal to
// ops/. Products that feed a sum are not fused with it, as on the CPU.
#pragma once

#include <cstdint>

#include "stoker/ops/interpolation.h"

namespace stoker::resize_device {

constexpr int kShift = 22;  // fraction bits of a weight, as in resize_axis.h

// One axis: output i reads inputs first[i] to first[i] + count[i] - 1.
struct Axis {
    int* first;
    int* count;
    int* weights;
    int stride;
};

// The filter of resize_axis.cpp at a distance in inputs.
__device__ inline double filter_height(double distance, bool cubic) {
    const double d = distance < 0 ? -distance : distance;
    if (!cubic) {
        return d < 1 ? 1.0 - d : 0.0;
    }
    constexpr double a = -0.5;
    if (d < 1) {
        return __dadd_rn(__dmul_rn(__dmul_rn(__dadd_rn(__dmul_rn(a + 2, d), -(a + 3)), d), d), 1.0);
    }
    return d < 2 ? __dmul_rn(__dadd_rn(__dmul_rn(__dadd_rn(__dmul_rn(d - 5, d), 8.0), d), -4.0), a) : 0.0;
}

// As resize_stride in resize_axis.cpp.
__device__ inline int stride_of(int input, int output, bool cubic) {
    const std::int64_t reach = cubic ? 2 : 1;
    return static_cast<int>(2 * (input > output ? (reach * input + output - 1) / output : reach) + 1);
}

// The weights of outputs begin ... begin + outputs - 1 by all threads of the block, as resize_axis.cpp rounds them:
// bilinear, or bicubic.
__device__ inline void build_axis(int input, int output, int begin, int outputs, bool cubic, const Axis& axis) {
    const double scale = static_cast<double>(input) / output;
    const double widening = scale > 1.0 ? scale : 1.0;
    const double support = cubic ? 2 * widening : widening;
    const double inverse = 1.0 / widening;
    for (int i = static_cast<int>(threadIdx.x); i < outputs; i += static_cast<int>(blockDim.x)) {
        int* const weights = axis.weights + i * axis.stride;
        if (input == output) {
            axis.first[i] = begin + i;
            axis.count[i] = 1;
            weights[0] = 1 << kShift;
            continue;
        }
        const double center = __dmul_rn(begin + i + 0.5, scale);
        const int lowest = static_cast<int>(center - support + 0.5);
        const int first = lowest > 0 ? lowest : 0;
        const int end = static_cast<int>(center + support + 0.5);
        const int count = (end < input ? end : input) - first;
        const auto height = [&](int k) { return filter_height(__dmul_rn(k + first - center + 0.5, inverse), cubic); };
        double sum = 0;
        for (int k = 0; k < count; ++k) {
            sum = __dadd_rn(sum, height(k));
        }
        for (int k = 0; k < count; ++k) {
            const double weight = height(k) / sum;
            weights[k] = static_cast<int>(__dadd_rn(weight < 0 ? -0.5 : 0.5, __dmul_rn(weight, 1 << kShift)));
        }
        axis.first[i] = first;
        axis.count[i] = count;
    }
}

__device__ inline int rounded(int sum) {
    const int value = sum >> kShift;
    return value < 0 ? 0 : value < 255 ? value : 255;
}

// The taps of one output on an axis.
struct Taps {
    const int* weights;
    int first;
    int count;
};
__device__ inline Taps taps_of(const Axis& axis, int i) {
    return {axis.weights + i * axis.stride, axis.first[i], axis.count[i]};
}

// One pixel: `channels` values that lie side by side, so that they share indices and weights. `from`: the first value
// at input (0, 0); the next row and column are `row` and `column` bytes further. Horizontal first, and rounded after
// each pass.
template <int channels>
__device__ inline void resize_values(const std::uint8_t* from, std::int64_t row, int column, const Taps& y,
                                     const Taps& x, int (&values)[channels]) {
    constexpr int kHalf = 1 << (kShift - 1);
    const std::uint8_t* line = from + y.first * row + x.first * column;
    int sums[channels];
#pragma unroll
    for (int c = 0; c < channels; ++c) {
        sums[c] = kHalf;
    }
    for (int i = 0; i < y.count; ++i) {
        int filtered[channels];
#pragma unroll
        for (int c = 0; c < channels; ++c) {
            filtered[c] = kHalf;
        }
        for (int k = 0; k < x.count; ++k) {
            const int weight = x.weights[k];
#pragma unroll
            for (int c = 0; c < channels; ++c) {
                filtered[c] += weight * line[k * column + c];
            }
        }
        const int weight = y.weights[i];
#pragma unroll
        for (int c = 0; c < channels; ++c) {
            sums[c] += weight * rounded(filtered[c]);
        }
        line += row;
    }
#pragma unroll
    for (int c = 0; c < channels; ++c) {
        values[c] = rounded(sums[c]);
    }
}

// One value; `from` is the first of its channel.
__device__ inline int resized_byte(const std::uint8_t* from, std::int64_t row, int column, const Taps& y,
                                   const Taps& x) {
    int value[1];
    resize_values(from, row, column, y, x, value);
    return value[0];
}

}  // namespace stoker::resize_device
