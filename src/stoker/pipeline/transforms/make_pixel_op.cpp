// One number stands for a range around the middle, as in torchvision: 0.4 for [0.6, 1.4], hue 0.1 for
// [-0.1, 0.1], degrees 30 for [-30, 30].
#include "stoker/pipeline/transforms/make_pixel_op.h"

#include <algorithm>
#include <fmt/format.h>

namespace stoker {
namespace {

float probability(OpOptions& options, double fallback) {
    return static_cast<float>(options.number("p", fallback, 0, 1));
}

// [low, high], or a number for the range around `middle`, within `least` and `most`.
FactorRange range_around(OpOptions& options, const char* name, double middle, double least, double most) {
    const std::vector<double> list = options.numbers(name, {0}, 1, 2);
    double low = list.front();
    double high = list.back();
    if (list.size() == 1) {
        if (!(high >= 0)) {
            options.refuse(name, "a number of at least 0, or [low, high]");
        }
        low = middle - high;
        high = middle + high;
        if (middle > 0) {
            low = std::max(low, 0.0);  // factors: torchvision cuts them off; turns and degrees do not
        }
    }
    if (!(low >= least && low <= high && high <= most)) {
        options.refuse(name, fmt::format("a range within {} and {}, low <= high", least, most));
    }
    return {static_cast<float>(low), static_cast<float>(high)};
}

}  // namespace

PixelOp make_vertical_flip(OpOptions& options) {
    return VerticalFlip{probability(options, 0.5)};
}

PixelOp make_random_rotation(OpOptions& options) {
    if (!options.has("degrees")) {
        options.refuse("degrees", "a number of at least 0, or [low, high]");
    }
    const FactorRange degrees = range_around(options, "degrees", 0, -3600, 3600);
    return RandomRotation{.low = degrees.low,
                          .high = degrees.high,
                          .interpolation = options.interpolation(),
                          .fill = options.color("fill")};
}

PixelOp make_color_jitter(OpOptions& options) {
    const double most = kMaxColorFactor;
    return ColorJitter{.brightness = range_around(options, "brightness", 1, 0, most),
                       .contrast = range_around(options, "contrast", 1, 0, most),
                       .saturation = range_around(options, "saturation", 1, 0, most),
                       .hue = range_around(options, "hue", 0, -0.5, 0.5)};
}

PixelOp make_random_grayscale(OpOptions& options) {
    return RandomGrayscale{probability(options, 0.1)};
}

PixelOp make_random_erasing(OpOptions& options) {
    const auto range = [&](const char* name, double low, double high, double least, double most) {
        const std::vector<double> list = options.numbers(name, {low, high}, 2, 2);
        if (!(list[0] >= least && list[0] <= list[1] && list[1] <= most)) {
            options.refuse(name, fmt::format("[low, high] with {} <= low <= high <= {}", least, most));
        }
        return std::pair(static_cast<float>(list[0]), static_cast<float>(list[1]));
    };
    const auto [scale_low, scale_high] = range("scale", 0.02, 0.33, 0, 1);
    const auto [ratio_low, ratio_high] = range("ratio", 0.3, 3.3, 1e-6, 1000);
    RandomErasing op{.probability = probability(options, 0.5),
                     .scale_low = scale_low,
                     .scale_high = scale_high,
                     .ratio_low = ratio_low,
                     .ratio_high = ratio_high};
    if (options.is_text("value")) {
        options.choice("value", {"random"});
        op.value.reset();
    } else {
        op.value = options.color("value");
    }
    return op;
}

PixelOp make_trivial_augment_wide(OpOptions& options) {
    const double bins = options.number("num_magnitude_bins", 31, 2, 1000);
    if (bins != static_cast<int>(bins)) {
        options.refuse("num_magnitude_bins", "a whole number from 2 to 1000");
    }
    TrivialAugmentWide op{.bins = static_cast<int>(bins), .interpolation = options.interpolation(), .outside = {}};
    if (options.has("fill")) {
        op.outside.fill = options.color("fill");
    }
    return op;
}

}  // namespace stoker
