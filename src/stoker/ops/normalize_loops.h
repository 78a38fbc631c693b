// The normalize loops in plain C++. Each instruction set compiles them again, and the compiler vectorises them as well
// as hand-written code. Internal to ops/.
#pragma once

#include <algorithm>

#include "stoker/ops/kernels.h"

#define STOKER_INLINE [[gnu::always_inline]] inline

namespace stoker::normalize_loops {

template <std::size_t channels>
STOKER_INLINE void planes(const std::uint8_t* __restrict pixels, std::size_t count, const NormalizeFactors& factors,
                          float* __restrict out, std::size_t plane) {
    const NormalizeFactors f = factors;  // a local copy: writes to `out` cannot alias it
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < channels; ++c) {
            out[c * plane + i] = static_cast<float>(pixels[channels * i + c]) * f.scale[c] + f.bias[c];
        }
    }
}

// Interleaved output needs no shuffle: the factors are repeated to a length that is a multiple of 1, 2, 3 and 4.
STOKER_INLINE void interleaved(const std::uint8_t* __restrict pixels, std::size_t values, std::size_t channels,
                               const NormalizeFactors& factors, float* __restrict out) {
    constexpr std::size_t kPeriod = 48;
    float scale[kPeriod];
    float bias[kPeriod];
    for (std::size_t j = 0; j < kPeriod; ++j) {
        scale[j] = factors.scale[j % channels];
        bias[j] = factors.bias[j % channels];
    }
    std::size_t i = 0;
    for (; i + kPeriod <= values; i += kPeriod) {
        for (std::size_t j = 0; j < kPeriod; ++j) {
            out[i + j] = static_cast<float>(pixels[i + j]) * scale[j] + bias[j];
        }
    }
    for (std::size_t j = 0; i + j < values; ++j) {
        out[i + j] = static_cast<float>(pixels[i + j]) * scale[j] + bias[j];
    }
}

STOKER_INLINE void normalize(const std::uint8_t* pixels, std::size_t count, int channels,
                             const NormalizeFactors& factors, Layout layout, float* out, std::size_t plane) {
    if (channels == 1) {
        planes<1>(pixels, count, factors, out, plane);
    } else if (layout == Layout::hwc) {
        const auto width = static_cast<std::size_t>(channels);
        interleaved(pixels, count * width, width, factors, out);
    } else if (channels == 2) {
        planes<2>(pixels, count, factors, out, plane);
    } else if (channels == 3) {
        planes<3>(pixels, count, factors, out, plane);
    } else {
        planes<4>(pixels, count, factors, out, plane);
    }
}

}  // namespace stoker::normalize_loops
