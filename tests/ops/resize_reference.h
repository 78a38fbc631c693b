// References for resize and resize_normalize: each op on a whole image, one value at a time. The library returns the
// same bits.
#pragma once

#include <algorithm>
#include <cmath>

#include "stoker/base/float16.h"
#include "stoker/ops/crop.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker::testing {

// The filter at a distance of `d` inputs.
inline double filter_height(Interpolation interpolation, double d) {
    constexpr double kPi = 3.14159265358979323846;
    const double x = std::abs(d);
    if (interpolation == Interpolation::bilinear) {
        return std::max(0.0, 1.0 - x);
    }
    if (interpolation == Interpolation::bicubic) {
        return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0.0;
    }
    const auto sinc = [](double at) { return at == 0 ? 1.0 : std::sin(at * kPi) / (at * kPi); };
    return d >= -3 && d < 3 ? sinc(d) * sinc(d / 3) : 0.0;
}

// The nearest input, by Pillow's sum of steps.
inline int nearest_input(int i, int output, int input) {
    const double scale = static_cast<double>(input) / output;
    double at = 0.5 * scale;
    for (int k = 0; k < i; ++k) {
        at += scale;
    }
    return std::min(static_cast<int>(at), input - 1);
}

// Output `i` of `output` values, resized from a line of `input` samples; sample(x) returns the x-th.
template <typename Sample>
inline std::uint8_t filter_line(int i, int output, int input, Interpolation interpolation, Sample sample) {
    if (input == output) {
        return sample(i);
    }
    if (interpolation == Interpolation::nearest) {
        return sample(nearest_input(i, output, input));
    }
    const double scale = static_cast<double>(input) / output;
    const double widening = std::max(scale, 1.0);
    const double center = (i + 0.5) * scale;
    const auto height = [&](int x) { return filter_height(interpolation, (x - center + 0.5) * (1.0 / widening)); };
    double total = 0;
    for (int x = 0; x < input; ++x) {
        total += height(x);
    }
    constexpr std::int64_t kOne = std::int64_t{1} << kResizeBits;
    std::int64_t sum = kOne / 2;
    for (int x = 0; x < input; ++x) {
        sum += std::llround(height(x) / total * static_cast<double>(kOne)) * sample(x);
    }
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum / kOne, 0, 255));
}

// `from` (h, w, C) to `to` (H, W, C).
inline void resize_reference(ConstImageView from, ImageView to, Interpolation interpolation = Interpolation::bilinear) {
    const int channels = from.channels;
    Image half(from.height, to.width, channels);
    const ImageView middle = half.view();
    for (int y = 0; y < from.height; ++y) {
        for (int x = 0; x < to.width; ++x) {
            for (int c = 0; c < channels; ++c) {
                middle.row(y)[x * channels + c] = filter_line(x, to.width, from.width, interpolation,
                                                              [&](int k) { return from.row(y)[k * channels + c]; });
            }
        }
    }
    for (int y = 0; y < to.height; ++y) {
        for (int i = 0; i < to.width * channels; ++i) {
            to.row(y)[i] =
                filter_line(y, to.height, from.height, interpolation, [&](int k) { return middle.row(k)[i]; });
        }
    }
}

inline void store_pixel(std::uint8_t pixel, float scale, float bias, DType dtype, std::byte* out) {
    const float value = static_cast<float>(pixel) * scale + bias;
    if (dtype == DType::uint8) {
        *reinterpret_cast<std::uint8_t*>(out) = pixel;
    } else if (dtype == DType::float32) {
        *reinterpret_cast<float*>(out) = value;
    } else {
        *reinterpret_cast<std::uint16_t*>(out) = dtype == DType::bfloat16 ? to_bfloat16(value) : to_float16(value);
    }
}

// The pixels of the source outside of the window are zeros; the resize must not read them.
inline void resize_normalize_reference(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                                       const NormalizeFactors& factors, const PixelTarget& target) {
    const auto& [source, full, part, flip, interpolation] = geometry;
    Image whole(source.height, source.width, from.channels);
    padded_crop(from, {-window.top, -window.left, source.height, source.width}, PaddingMode::constant, {},
                whole.view());
    Image resized(full.height, full.width, from.channels);
    resize_reference(whole.view(), resized.view(), interpolation);
    Image cut(part.height, part.width, from.channels);
    copy_pixels(resized.view().crop(part), cut.view());
    if (flip) {
        horizontal_flip(cut.view());
    }
    for (int y = 0; y < part.height; ++y) {
        for (int x = 0; x < part.width; ++x) {
            for (int c = 0; c < from.channels; ++c) {
                const auto channel = static_cast<std::size_t>(c);
                const std::ptrdiff_t place = target.layout == Layout::chw
                                                 ? (std::ptrdiff_t{c} * part.height + y) * part.width + x
                                                 : (std::ptrdiff_t{y} * part.width + x) * from.channels + c;
                store_pixel(cut.view().row(y)[x * from.channels + c], factors.scale[channel], factors.bias[channel],
                            target.dtype, target.data + place * static_cast<std::ptrdiff_t>(item_size(target.dtype)));
            }
        }
    }
}

}  // namespace stoker::testing
