// The boxes are torchvision's. Python's round() rounds halves to even, like std::nearbyint in the default mode, and its
// // rounds down.
#include "stoker/ops/crop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// The offset of a window of `size` on a line of `length`. Negative: padding on both sides, the odd pixel at the end.
int center_offset(int length, int size) {
    if (size > length) {
        return -((size - length) / 2);
    }
    return static_cast<int>(std::nearbyint((length - size) / 2.0));
}

int rounded(double value) {
    return static_cast<int>(std::nearbyint(value));
}

void check(const RandomResizedCrop& op, int height, int width) {
    if (height < 1 || width < 1) {
        throw InvalidArgument({.where = "random_resized_crop",
                               .expected = "an image of at least 1 x 1",
                               .got = fmt::format("{} x {}", height, width)});
    }
    const auto range = [](float low, float high) { return low > 0 && low <= high && std::isfinite(high); };
    if (!range(op.scale_low, op.scale_high) || !range(op.ratio_low, op.ratio_high)) {
        throw InvalidArgument({.where = "random_resized_crop",
                               .expected = "ranges 0 < low <= high of scale and ratio",
                               .got = fmt::format("scale {} to {}, ratio {} to {}", op.scale_low, op.scale_high,
                                                  op.ratio_low, op.ratio_high)});
    }
}

// The largest centred box of an allowed ratio.
Box fallback_box(const RandomResizedCrop& op, int height, int width) {
    const double ratio = static_cast<double>(width) / height;
    Box box{0, 0, height, width};
    if (ratio < op.ratio_low) {
        box.height = std::clamp(rounded(width / static_cast<double>(op.ratio_low)), 1, height);
    } else if (ratio > op.ratio_high) {
        box.width = std::clamp(rounded(height * static_cast<double>(op.ratio_high)), 1, width);
    }
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

}  // namespace

Box center_crop_box(int image_height, int image_width, int height, int width) {
    if (image_height < 1 || image_width < 1 || height < 1 || width < 1) {
        throw InvalidArgument({.where = "center_crop",
                               .expected = "an image and a size of at least 1 x 1",
                               .got = fmt::format("{} x {} of {} x {}", height, width, image_height, image_width)});
    }
    return {center_offset(image_height, height), center_offset(image_width, width), height, width};
}

Box draw_random_resized_crop(const RandomResizedCrop& op, int image_height, int image_width, Rng& rng) {
    check(op, image_height, image_width);
    const double area = static_cast<double>(image_height) * image_width;
    const double log_low = std::log(static_cast<double>(op.ratio_low));
    const double log_high = std::log(static_cast<double>(op.ratio_high));
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double target = area * static_cast<double>(rng.uniform(op.scale_low, op.scale_high));
        const double ratio = std::exp(log_low + (log_high - log_low) * static_cast<double>(rng.uniform()));
        const double width = std::nearbyint(std::sqrt(target * ratio));
        const double height = std::nearbyint(std::sqrt(target / ratio));
        if (width >= 1 && width <= image_width && height >= 1 && height <= image_height) {
            Box box{0, 0, static_cast<int>(height), static_cast<int>(width)};
            box.top = static_cast<int>(rng.below(static_cast<std::uint32_t>(image_height - box.height + 1)));
            box.left = static_cast<int>(rng.below(static_cast<std::uint32_t>(image_width - box.width + 1)));
            return box;
        }
    }
    return fallback_box(op, image_height, image_width);
}

Interpolation draw_interpolation(const RandomResizedCrop& op, Rng& rng) {
    return op.interpolation ? *op.interpolation : rng.below(2) == 0 ? Interpolation::bilinear : Interpolation::bicubic;
}

}  // namespace stoker
