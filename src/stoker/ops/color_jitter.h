// torchvision's ColorJitter: brightness, contrast, saturation and hue with random factors in random order. It takes one
// pass over the pixels, or two, because contrast needs the mean of the previous result. On uint8 each step differs from
// torchvision v2 by at most 1 level. The bits are the same on every processor.
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

// A single number b of torchvision means the range [max(0, 1 - b), 1 + b], for hue [-b, b]. Factors are from 0 to
// kMaxColorFactor, hue in turns from -0.5 to 0.5. A factor of 1 or a hue of 0 skips its step.
struct ColorJitter {
    FactorRange brightness{};
    FactorRange contrast{};
    FactorRange saturation{};
    FactorRange hue{0, 0};
    float probability = 1;
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

// Always draws the order and four factors, so that one range does not change the draws of the others.
ColorJitterParams draw_color_jitter(const ColorJitter& op, Rng& rng);

// In place, C = 1 or 3; saturation and hue do not change grey images. Throws DataError for other shapes.
void color_jitter(ImageView image, const ColorJitterParams& params);

// color_jitter with a given set of kernels.
struct ColorKernels;
void color_jitter_with(const ColorKernels& kernels, ImageView image, const ColorJitterParams& params);

}  // namespace stoker
