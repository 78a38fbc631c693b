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

void crop_padded(ConstImageView from, const Box& box, ImageView to) {
    if (to.height != box.height || to.width != box.width || to.channels != from.channels) {
        throw InvalidArgument(
            {.where = "crop",
             .expected = fmt::format("a target of ({}, {}, {})", box.height, box.width, from.channels),
             .got = fmt::format("({}, {}, {})", to.height, to.width, to.channels)});
    }
    const auto channels = static_cast<std::size_t>(from.channels);
    const int left = std::clamp(-box.left, 0, box.width);                  // box columns before the image
    const int right = std::clamp(from.width - box.left, left, box.width);  // first box column after the image
    const std::size_t before = static_cast<std::size_t>(left) * channels;
    const std::size_t inside = static_cast<std::size_t>(right - left) * channels;
    for (int y = 0; y < box.height; ++y) {
        std::uint8_t* out = to.row(y);
        const int source = box.top + y;
        if (source < 0 || source >= from.height || inside == 0) {
            std::fill_n(out, to.row_bytes(), std::uint8_t{0});
            continue;
        }
        std::fill_n(out, before, std::uint8_t{0});
        std::copy_n(from.row(source) + std::ptrdiff_t{box.left + left} * from.channels, inside, out + before);
        std::fill_n(out + before + inside, to.row_bytes() - before - inside, std::uint8_t{0});
    }
}

}  // namespace stoker
