// uint8 pixels to float: (x / 255 - mean) / std, written as planes (C, H, W) or interleaved (H, W, C)
// straight into the batch slot. The last op of every image pipeline.
#pragma once

#include <array>

#include "stoker/base/image.h"

namespace stoker {

// Per channel; grey images use the first entry. The default leaves pixels in [0, 1].
struct Normalize {
    std::array<float, 4> mean{0, 0, 0, 0};
    std::array<float, 4> std{1, 1, 1, 1};
    int channels = 0;  // of the images that they are for; 0: any number
};

// torchvision's usual constants.
inline constexpr Normalize kImageNetNormalize{{0.485f, 0.456f, 0.406f, 0}, {0.229f, 0.224f, 0.225f, 1}, 3};
inline constexpr Normalize kMnistNormalize{{0.1307f, 0.1307f, 0.1307f, 0.1307f},
                                           {0.3081f, 0.3081f, 0.3081f, 0.3081f}};  // grey ones as RGB, too
inline constexpr Normalize kCifar10Normalize{{0.4914f, 0.4822f, 0.4465f, 0}, {0.2470f, 0.2435f, 0.2616f, 1}, 3};

enum class Layout { chw, hwc };

// The op as one multiplication and one addition a pixel: x * scale + bias = (x / 255 - mean) / std.
// Throws InvalidArgument where a `std` is not above 0 or a number is not finite.
struct NormalizeFactors {
    std::array<float, 4> scale{};
    std::array<float, 4> bias{};
};
NormalizeFactors normalize_factors(const Normalize& op);

// `image` (H, W, C), C = 1..4, to `out`: float32 (C, H, W) or (H, W, C), H * W * C elements.
void normalize(ConstImageView image, const Normalize& op, Layout layout, float* out);

// The slow, readable twin.
void normalize_reference(ConstImageView image, const Normalize& op, Layout layout, float* out);

}  // namespace stoker
