// Reference for the normalize kernels, and the kernels over a whole image.
#pragma once

#include "stoker/ops/kernels.h"

namespace stoker::testing {

// (x / 255 - mean) / std, one value at a time: `image` (H, W, C) to float32 (C, H, W) or (H, W, C). The kernels
// multiply and add instead, so results differ by rounding.
inline void normalize_reference(ConstImageView image, const Normalize& op, Layout layout, float* out) {
    for (int y = 0; y < image.height; ++y) {
        for (int x = 0; x < image.width; ++x) {
            for (int c = 0; c < image.channels; ++c) {
                const auto channel = static_cast<std::size_t>(c);
                const float value =
                    (static_cast<float>(image.row(y)[x * image.channels + c]) / 255.0f - op.mean[channel]) /
                    op.std[channel];
                const std::ptrdiff_t place = layout == Layout::chw
                                                 ? (std::ptrdiff_t{c} * image.height + y) * image.width + x
                                                 : (std::ptrdiff_t{y} * image.width + x) * image.channels + c;
                out[place] = value;
            }
        }
    }
}

// The same with a given set of kernels, row by row.
inline void normalize_with(const OpKernels& kernels, ConstImageView image, const Normalize& op, Layout layout,
                           float* out) {
    const NormalizeFactors factors = normalize_factors(op);
    const auto width = static_cast<std::size_t>(image.width);
    const std::size_t plane = width * static_cast<std::size_t>(image.height);
    for (int y = 0; y < image.height; ++y) {
        kernels.normalize(image.row(y), width, image.channels, factors, layout, out, plane);
        out += layout == Layout::chw ? width : image.row_bytes();
    }
}

}  // namespace stoker::testing
