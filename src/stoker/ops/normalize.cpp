// Checks, the factors, and the split into runs of pixels that lie without gaps.
#include "stoker/ops/normalize.h"

#include <fmt/format.h>

#include <cmath>

#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"

namespace stoker {

NormalizeFactors normalize_factors(const Normalize& op) {
    NormalizeFactors factors;
    for (std::size_t c = 0; c < op.mean.size(); ++c) {
        if (!std::isfinite(op.mean[c]) || !std::isfinite(op.std[c]) || !(op.std[c] > 0)) {
            throw InvalidArgument({.where = "normalize",
                                   .expected = "a finite mean and a std above 0",
                                   .got = fmt::format("mean {} and std {} for channel {}", op.mean[c], op.std[c], c)});
        }
        factors.scale[c] = static_cast<float>(1.0 / (255.0 * op.std[c]));
        factors.bias[c] = static_cast<float>(-static_cast<double>(op.mean[c]) / op.std[c]);
    }
    return factors;
}

void normalize_with(const OpKernels& kernels, ConstImageView image, const Normalize& op, Layout layout, float* out) {
    if (image.channels < 1 || image.channels > 4 || image.height < 0 || image.width < 0) {
        throw InvalidArgument({.where = "normalize",
                               .expected = "an image of 1 to 4 channels",
                               .got = fmt::format("({}, {}, {})", image.height, image.width, image.channels)});
    }
    const NormalizeFactors factors = normalize_factors(op);
    const auto rows = static_cast<std::size_t>(image.height);
    const auto width = static_cast<std::size_t>(image.width);
    if (image.stride == static_cast<std::ptrdiff_t>(image.row_bytes())) {
        kernels.normalize(image.data, rows * width, image.channels, factors, layout, out, rows * width);
        return;
    }
    const std::size_t step = layout == Layout::chw ? width : image.row_bytes();
    for (int y = 0; y < image.height; ++y) {
        kernels.normalize(image.row(y), width, image.channels, factors, layout, out, rows * width);
        out += step;
    }
}

void normalize(ConstImageView image, const Normalize& op, Layout layout, float* out) {
    normalize_with(best_kernels(), image, op, layout, out);
}

void normalize_reference(ConstImageView image, const Normalize& op, Layout layout, float* out) {
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

}  // namespace stoker
