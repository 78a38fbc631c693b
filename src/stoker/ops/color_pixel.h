// The colour steps for one pixel, whose channels are whole levels 0..255 as floats. The CPU's loops (color_loops.h) and
// the GPU's kernel (colors_cuda.cu) compute with the same functions, without fusing but by std::fma, so their bits are
// the same. Internal to ops/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define STOKER_PIXEL __host__ __device__ inline
#else
#define STOKER_PIXEL [[gnu::always_inline]] inline
#endif

namespace stoker::color_pixel {

STOKER_PIXEL float truncated(float x) {
    return static_cast<float>(static_cast<std::int32_t>(x));
}

// Clamps and truncates to a whole level 0..255, as torchvision's clamp and cast.
STOKER_PIXEL float level(float x) {
    return truncated(std::min(std::max(x, 0.0f), 255.0f));
}

STOKER_PIXEL float gray_of(float red, float green, float blue) {
    return static_cast<float>(
        static_cast<std::int32_t>(std::fma(blue, 0.114f, std::fma(green, 0.587f, red * 0.2989f))));
}

// The weight of the other image in torchvision's blends.
STOKER_PIXEL float rest_of(float factor) {
    return static_cast<float>(1.0 - static_cast<double>(factor));
}

STOKER_PIXEL float scaled(float value, float factor) {
    return level(value * factor);
}

STOKER_PIXEL float blended(float value, float factor, float other, float rest) {
    return level(std::fma(other, rest, value * factor));
}

struct Hsv {
    float hue;  // in turns, [0, 1]
    float saturation;
    float value;
};

// Channels in [0, 1]. The same float operations in the same order as torchvision v2, so that the bits agree.
STOKER_PIXEL Hsv to_hsv(float r, float g, float b) {
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
STOKER_PIXEL float channel(float middle, float place, float most, float slope, float least) {
    const float distance = 3.0f - std::fabs(std::fabs(middle - place) - 3.0f);
    const float lower = distance < 2.0f ? slope : least;
    return distance < 1.0f ? most : lower;
}

// RGB of an HSV colour, with `turns` (-0.5 to 0.5) added to its hue: the middle of the sector, and the largest, the
// middle and the smallest channel in [0, 1].
struct TurnedHue {
    float middle;
    float most;
    float slope;
    float least;
};

STOKER_PIXEL TurnedHue turned_hue(const Hsv& hsv, float turns) {
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
    return {begin + 0.5f, hsv.value, ((sector & 1) != 0 ? falling : rising) * hsv.value, rest * hsv.value};
}

STOKER_PIXEL void turn_hue(float& red, float& green, float& blue, float turns) {
    constexpr float kUnit = 1.0f / 255.0f;
    constexpr float kLevels = 255.999f;  // torchvision's factor from [0, 1] to levels
    const TurnedHue turned = turned_hue(to_hsv(red * kUnit, green * kUnit, blue * kUnit), turns);
    const float most = truncated(turned.most * kLevels);
    const float slope = truncated(turned.slope * kLevels);
    const float least = truncated(turned.least * kLevels);
    red = channel(turned.middle, 0, most, slope, least);
    green = channel(turned.middle, 2, most, slope, least);
    blue = channel(turned.middle, 4, most, slope, least);
}

}  // namespace stoker::color_pixel
