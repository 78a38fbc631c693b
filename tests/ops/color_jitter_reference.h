// Reference for color_jitter: torchvision v2's adjust_* on uint8, one step and one pixel at a time, hue through HSV in
// double. The library returns the same bits, except for hue, which may differ by 1.
#pragma once

#include <algorithm>
#include <cmath>

#include "stoker/ops/color_jitter.h"

namespace stoker::testing {

inline std::uint8_t level(float value) {
    return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// Fused multiply-add as in PyTorch.
inline float gray_of(const std::uint8_t* pixel, int channels) {
    const auto first = static_cast<float>(pixel[0]);
    if (channels == 1) {
        return first;
    }
    const auto green = static_cast<float>(pixel[1]);
    const auto blue = static_cast<float>(pixel[2]);
    return std::floor(std::fma(blue, 0.114f, std::fma(green, 0.587f, first * 0.2989f)));
}

// Calls `change(pixel)` for every pixel.
template <typename Change>
inline void each_pixel(ImageView image, Change change) {
    for (int y = 0; y < image.height; ++y) {
        for (int x = 0; x < image.width; ++x) {
            change(image.row(y) + std::ptrdiff_t{x} * image.channels);
        }
    }
}

// pixel * factor + other * (1 - factor), in place.
inline void blend(std::uint8_t* pixel, int channels, float factor, float other) {
    const float rest = static_cast<float>(1.0 - static_cast<double>(factor));
    for (int c = 0; c < channels; ++c) {
        pixel[c] = level(std::fma(other, rest, static_cast<float>(pixel[c]) * factor));
    }
}

struct HsvColor {
    double hue = 0;  // in turns, [0, 1)
    double saturation = 0;
    double value = 0;
};

inline HsvColor to_hsv(const std::uint8_t* pixel) {
    const double r = pixel[0] / 255.0;
    const double g = pixel[1] / 255.0;
    const double b = pixel[2] / 255.0;
    const double most = std::max({r, g, b});
    const double range = most - std::min({r, g, b});
    if (range == 0) {
        return {0, 0, most};
    }
    double sixths = 0;
    if (most == r) {
        sixths = (g - b) / range;
    } else if (most == g) {
        sixths = 2 + (b - r) / range;
    } else {
        sixths = 4 + (r - g) / range;
    }
    return {std::fmod(sixths / 6 + 1, 1.0), range / most, most};
}

inline void from_hsv(const HsvColor& hsv, std::uint8_t* pixel) {
    const double sixths = hsv.hue * 6;
    const int sector = static_cast<int>(sixths) % 6;
    const double f = sixths - std::floor(sixths);
    const double v = hsv.value;
    const double p = v * (1 - hsv.saturation);
    const double q = v * (1 - hsv.saturation * f);
    const double t = v * (1 - hsv.saturation * (1 - f));
    const double colors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<std::uint8_t>(std::clamp(colors[sector][c], 0.0, 1.0) * 255.999);
    }
}

inline void adjust_contrast(ImageView image, float factor) {
    double sum = 0;
    each_pixel(image, [&](const std::uint8_t* pixel) { sum += static_cast<double>(gray_of(pixel, image.channels)); });
    const auto mean = static_cast<float>(sum / (static_cast<double>(image.height) * image.width));
    each_pixel(image, [&](std::uint8_t* pixel) { blend(pixel, image.channels, factor, mean); });
}

// C = 1 or 3, in place.
inline void color_jitter_reference(ImageView image, const ColorJitterParams& params) {
    const int channels = image.channels;
    for (const Adjust adjust : params.order) {
        if (adjust == Adjust::brightness && params.brightness != 1.0f) {
            each_pixel(image, [&](std::uint8_t* pixel) { blend(pixel, channels, params.brightness, 0); });
        } else if (adjust == Adjust::contrast && params.contrast != 1.0f) {
            adjust_contrast(image, params.contrast);
        } else if (adjust == Adjust::saturation && params.saturation != 1.0f && channels == 3) {
            each_pixel(image, [&](std::uint8_t* pixel) { blend(pixel, 3, params.saturation, gray_of(pixel, 3)); });
        } else if (adjust == Adjust::hue && params.hue != 0.0f && channels == 3) {
            each_pixel(image, [&](std::uint8_t* pixel) {
                HsvColor hsv = to_hsv(pixel);
                hsv.hue = std::fmod(hsv.hue + static_cast<double>(params.hue) + 1, 1.0);
                from_hsv(hsv, pixel);
            });
        }
    }
}

}  // namespace stoker::testing
