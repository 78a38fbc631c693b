// The colour steps in plain C++. Each instruction set compiles them again, and the compiler vectorises them. A block of
// pixels is converted to float planes, which stay in the first-level cache for all steps. Internal to ops/.
#pragma once

#include <algorithm>

#include "stoker/ops/color_kernels.h"
#include "stoker/ops/color_pixel.h"

#define STOKER_INLINE [[gnu::always_inline]] inline

namespace stoker::color_loops {

using color_pixel::blended;
using color_pixel::gray_of;
using color_pixel::scaled;

inline constexpr std::size_t kBlock = 256;  // loops always process a full block; values after the end are unused

template <std::size_t channels>
struct alignas(64) Planes {
    float value[channels][kBlock];
};

template <std::size_t channels>
STOKER_INLINE void scale(Planes<channels>& planes, float factor) {
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            planes.value[c][i] = scaled(planes.value[c][i], factor);
        }
    }
}

template <std::size_t channels>
STOKER_INLINE void blend_mean(Planes<channels>& planes, float factor, float rest, float mean) {
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            planes.value[c][i] = blended(planes.value[c][i], factor, mean, rest);
        }
    }
}

STOKER_INLINE void saturate(Planes<3>& planes, float factor, float rest) {
    float* red = planes.value[0];
    float* green = planes.value[1];
    float* blue = planes.value[2];
    for (std::size_t i = 0; i < kBlock; ++i) {
        const float gray = gray_of(red[i], green[i], blue[i]);
        red[i] = blended(red[i], factor, gray, rest);
        green[i] = blended(green[i], factor, gray, rest);
        blue[i] = blended(blue[i], factor, gray, rest);
    }
}

// Adds `turns` to every hue.
STOKER_INLINE void turn_hues(Planes<3>& planes, float turns) {
    float* red = planes.value[0];
    float* green = planes.value[1];
    float* blue = planes.value[2];
    for (std::size_t i = 0; i < kBlock; ++i) {
        color_pixel::turn_hue(red[i], green[i], blue[i], turns);
    }
}

STOKER_INLINE void make_gray(Planes<3>& planes) {
    for (std::size_t i = 0; i < kBlock; ++i) {
        const float gray = gray_of(planes.value[0][i], planes.value[1][i], planes.value[2][i]);
        planes.value[0][i] = gray;
        planes.value[1][i] = gray;
        planes.value[2][i] = gray;
    }
}

template <std::size_t channels>
STOKER_INLINE void apply(const ColorStage& stage, Planes<channels>& planes) {
    if (stage.step == ColorStep::scale) {
        scale(planes, stage.factor);
    } else if (stage.step == ColorStep::contrast) {
        blend_mean(planes, stage.factor, stage.rest, stage.mean);
    } else if constexpr (channels == 3) {
        if (stage.step == ColorStep::saturate) {
            saturate(planes, stage.factor, stage.rest);
        } else if (stage.step == ColorStep::hue) {
            turn_hues(planes, stage.factor);
        } else {
            make_gray(planes);
        }
    }
}

template <std::size_t channels>
STOKER_INLINE std::uint64_t sum_gray(const Planes<channels>& planes, std::size_t count) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (channels == 3) {
            sum += static_cast<std::int32_t>(gray_of(planes.value[0][i], planes.value[1][i], planes.value[2][i]));
        } else {
            sum += static_cast<std::int32_t>(planes.value[0][i]);
        }
    }
    return static_cast<std::uint64_t>(sum);
}

template <std::size_t channels>
STOKER_INLINE void load(const std::uint8_t* __restrict pixels, std::size_t count, Planes<channels>& planes) {
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < channels; ++c) {
            planes.value[c][i] = static_cast<float>(pixels[channels * i + c]);
        }
    }
}

template <std::size_t channels>
STOKER_INLINE void store(const Planes<channels>& planes, std::uint8_t* __restrict pixels, std::size_t count) {
    alignas(64) std::uint8_t bytes[channels][kBlock];
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            bytes[c][i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(planes.value[c][i]));
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < channels; ++c) {
            pixels[channels * i + c] = bytes[c][i];
        }
    }
}

template <std::size_t channels, bool with_sum>
STOKER_INLINE std::uint64_t run_blocks(std::uint8_t* pixels, std::size_t count, std::span<const ColorStage> stages) {
    Planes<channels> planes{};
    std::uint64_t sum = 0;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
        std::uint8_t* block = pixels + begin * channels;
        const std::size_t length = std::min(kBlock, count - begin);
        if (length == kBlock) {
            load(block, kBlock, planes);  // a constant length vectorises better
        } else {
            load(block, length, planes);
        }
        for (const ColorStage& stage : stages) {
            apply(stage, planes);
        }
        if constexpr (with_sum) {
            sum += sum_gray(planes, length);
        }
        if (!stages.empty()) {
            store(planes, block, length);
        }
    }
    return sum;
}

template <bool with_sum>
STOKER_INLINE std::uint64_t run(std::uint8_t* pixels, std::size_t count, int channels,
                                std::span<const ColorStage> stages) {
    return channels == 1 ? run_blocks<1, with_sum>(pixels, count, stages)
                         : run_blocks<3, with_sum>(pixels, count, stages);
}

}  // namespace stoker::color_loops
