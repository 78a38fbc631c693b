// torchvision's ColorJitter: brightness, contrast, saturation and hue by random factors in random order, in
// one or two passes (contrast needs the mean of what comes before it). On uint8 it agrees with torchvision v2
// to 1 level a step. Floats are multiplied and added one by one, so every processor gives the same bits.
#pragma once

#include <array>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct FactorRange {
    float low = 1;
    float high = 1;
    bool operator==(const FactorRange&) const = default;
};

// torchvision's number b stands for [max(0, 1 - b), 1 + b], of hue for [-b, b]. Factors are from 0 to kMaxColorFactor,
// hue is in turns from -0.5 to 0.5. A range of just 1, of hue of just 0, leaves its step out.
struct ColorJitter {
    FactorRange brightness{};
    FactorRange contrast{};
    FactorRange saturation{};
    FactorRange hue{0, 0};
};

inline constexpr float kMaxColorFactor = 1000;

enum class Adjust { brightness, contrast, saturation, hue };

struct ColorJitterParams {
    std::array<Adjust, 4> order{Adjust::brightness, Adjust::contrast, Adjust::saturation, Adjust::hue};
    float brightness = 1;
    float contrast = 1;
    float saturation = 1;
    float hue = 0;
};

// Always draws the order and four factors, so that a range's width does not move the draws of others.
ColorJitterParams draw_color_jitter(const ColorJitter& op, Rng& rng);

// In place, C = 1 or 3; a gray image has neither saturation nor hue. Throws InvalidArgument for other shapes.
void color_jitter(ImageView image, const ColorJitterParams& params);

// The slow, readable twin, through HSV as torchvision goes: the same bits, but for hue, where it may differ by 1.
void color_jitter_reference(ImageView image, const ColorJitterParams& params);

// color_jitter with a given set of kernels, for tests and benchmarks.
struct ColorKernels;
void color_jitter_with(const ColorKernels& kernels, ImageView image, const ColorJitterParams& params);

}  // namespace stoker
