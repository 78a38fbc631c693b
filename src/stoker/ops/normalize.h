// The parameters of normalize, the last op of every image pipeline: (x / 255 - mean) / std. resize_normalize and
// normalize_cuda apply them to bytes; planes divide by PlaneValues::top, or are normalised by their own values.
#pragma once

#include <array>
#include <cstdint>

namespace stoker {

// An image is normalised by given values, by its smallest and largest value, or by its values at two percentiles; these
// become 0 and 1, and values beyond them are clipped.
enum class NormalizeBy : std::uint8_t { mean_std, min_max, percentiles };

constexpr std::array<float, 64> for_all_channels(float value) {
    std::array<float, 64> values{};
    values.fill(value);
    return values;
}

// One value per channel; grey images use the first. The default maps pixels to [0, 1].
struct Normalize {
    std::array<float, 64> mean{};
    std::array<float, 64> std = for_all_channels(1);
    int channels = 0;  // the images must have this many channels; 0: any, and the first values are those of all
    NormalizeBy by = NormalizeBy::mean_std;
    std::array<double, 2> percentiles{0, 100};
    bool channel_wise = false;  // min_max, percentiles: of each channel
};

// torchvision's usual constants.
inline constexpr Normalize kImageNetNormalize{{0.485f, 0.456f, 0.406f, 0}, {0.229f, 0.224f, 0.225f, 1}, 3};
inline constexpr Normalize kMnistNormalize{for_all_channels(0.1307f),
                                           for_all_channels(0.3081f)};  // also for grey as RGB
inline constexpr Normalize kCifar10Normalize{{0.4914f, 0.4822f, 0.4465f, 0}, {0.2470f, 0.2435f, 0.2616f, 1}, 3};

enum class Layout { chw, hwc };  // planes (C, H, W) or interleaved (H, W, C)

// The op as one multiplication and one addition per value: x * scale + bias = (x / 255 - mean) / std.
// normalize_factors takes the first four; it throws InvalidArgument if a std is not above 0 or a number is not finite.
struct NormalizeFactors {
    std::array<float, 4> scale{};
    std::array<float, 4> bias{};

    bool operator==(const NormalizeFactors&) const = default;
};
NormalizeFactors normalize_factors(const Normalize& op);

}  // namespace stoker
