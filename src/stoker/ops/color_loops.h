// The colour steps in plain C++. Each instruction set compiles them again, and the compiler vectorises them. A block of
// pixels is converted to float planes, which stay in the first-level cache for all steps. Internal to ops/.
#pragma once

#include <algorithm>
#include <cmath>

#include "stoker/ops/color_kernels.h"

#define STOKER_INLINE [[gnu::always_inline]] inline

namespace stoker::color_loops {

inline constexpr std::size_t kBlock = 256;  // loops always process a full block; values after the end are unused

template <std::size_t channels>
struct alignas(64) Planes {
    float value[channels][kBlock];
};

STOKER_INLINE float truncated(float x) {
    return static_cast<float>(static_cast<std::int32_t>(x));
}

// Clamps and truncates to a whole level 0..255, as torchvision's clamp and cast.
STOKER_INLINE float level(float x) {
    return truncated(std::min(std::max(x, 0.0f), 255.0f));
}

STOKER_INLINE float gray_of(float red, float green, float blue) {
    return static_cast<float>(
        static_cast<std::int32_t>(std::fma(blue, 0.114f, std::fma(green, 0.587f, red * 0.2989f))));
}

template <std::size_t channels>
STOKER_INLINE void scale(Planes<channels>& planes, float factor) {
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            planes.value[c][i] = level(planes.value[c][i] * factor);
        }
    }
}

template <std::size_t channels>
STOKER_INLINE void blend_mean(Planes<channels>& planes, float factor, float rest, float mean) {
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < kBlock; ++i) {
            planes.value[c][i] = level(std::fma(mean, rest, planes.value[c][i] * factor));
        }
    }
}

STOKER_INLINE void saturate(Planes<3>& planes, float factor, float rest) {
    float* red = planes.value[0];
    float* green = planes.value[1];
    float* blue = planes.value[2];
    for (std::size_t i = 0; i < kBlock; ++i) {
        const float gray = gray_of(red[i], green[i], blue[i]);
        red[i] = level(std::fma(gray, rest, red[i] * factor));
        green[i] = level(std::fma(gray, rest, green[i] * factor));
        blue[i] = level(std::fma(gray, rest, blue[i] * factor));
    }
}

struct Hsv {
    float hue;  // in turns, [0, 1]
    float saturation;
    float value;
};

// Channels in [0, 1]. The same float operations in the same order as torchvision v2, so that the bits agree.
STOKER_INLINE Hsv to_hsv(float r, float g, float b) {
    const float most = std::max(r, std::max(g, b));
    const float range = most - std::min(r, std::min(g, b));
    const bool flat = range == 0.0f;
    const float divisor = flat ? 1.0f : range;
    // Distances of two channels from the largest one, and the start of the largest channel's sector.
    const float green_first = most == g ? most - r : most - g;
    const float plus = (most == r ? most - b : green_first) / divisor;
    const float green_second = most == g ? most - b : most - r;
    const float minus = (most == r ? most - g : green_second) / divisor;
    const float green_begin = most == g ? 2.0f : 4.0f;
    const float sixths = plus + (most == r ? 0.0f : green_begin) - minus;
    const float turned = sixths * (1.0f / 6.0f) + 1.0f;  // in [5 / 6, 2)
    return {turned >= 1.0f ? turned - 1.0f : turned, range / (flat ? 1.0f : most), most};
}

// A channel is the largest in the two sectors of the colour circle next to its position (red 0, green 2, blue 4), the
// smallest in the two opposite sectors, and rises or falls in the other two. `middle` is the sector's middle, 0.5
// to 5.5, or 6.5 if rounding exceeded the circle. The code compares distances, because a switch would not vectorise.
STOKER_INLINE float channel(float middle, float place, float most, float slope, float least) {
    const float distance = 3.0f - std::fabs(std::fabs(middle - place) - 3.0f);
    const float lower = distance < 2.0f ? slope : least;
    return distance < 1.0f ? most : lower;
}

// Adds `turns` (-0.5 to 0.5) to every hue and converts back to RGB.
STOKER_INLINE void turn_hue(Planes<3>& planes, float turns) {
    constexpr float kUnit = 1.0f / 255.0f;
    constexpr float kLevels = 255.999f;  // torchvision's factor from [0, 1] to levels
    float* red = planes.value[0];
    float* green = planes.value[1];
    float* blue = planes.value[2];
    for (std::size_t i = 0; i < kBlock; ++i) {
        const Hsv hsv = to_hsv(red[i] * kUnit, green[i] * kUnit, blue[i] * kUnit);
        float hue = hsv.hue + turns;
        hue = hue < 0.0f ? hue + 1.0f : hue;
        hue = hue >= 1.0f ? hue - 1.0f : hue;
        const float sixths = hue * 6.0f;
        const auto sector = static_cast<std::int32_t>(sixths);
        const auto begin = static_cast<float>(sector);
        const float part = hsv.saturation * (sixths - begin);
        const float rest = 1.0f - hsv.saturation;
        const float falling = 1.0f - part;
        const float rising = part + rest;
        const float most = truncated(hsv.value * kLevels);
        const float slope = truncated(((sector & 1) != 0 ? falling : rising) * hsv.value * kLevels);
        const float least = truncated(rest * hsv.value * kLevels);
        red[i] = channel(begin + 0.5f, 0, most, slope, least);
        green[i] = channel(begin + 0.5f, 2, most, slope, least);
        blue[i] = channel(begin + 0.5f, 4, most, slope, least);
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
            turn_hue(planes, stage.factor);
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
