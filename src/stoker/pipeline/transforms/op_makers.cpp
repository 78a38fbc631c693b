// One maker per op, and the table of makers. Options are checked here, so mistakes in a recipe are found before
// anything runs. Names and defaults are torchvision's.
#include "stoker/pipeline/transforms/op_makers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace stoker {
namespace {

FactorRange checked_range(OpOptions& options, const char* name, double low, double high, double least, double most) {
    if (!(low >= least && low <= high && high <= most)) {
        options.refuse(name, fmt::format("[low, high] with {} <= low <= high <= {}", least, most));
    }
    return {static_cast<float>(low), static_cast<float>(high)};
}

// [low, high] within `least` and `most`.
FactorRange read_range(OpOptions& options, const char* name, std::vector<double> fallback, double least, double most) {
    const std::vector<double> list = options.numbers(name, std::move(fallback), 2, 2);
    return checked_range(options, name, list[0], list[1], least, most);
}

// [low, high] within `least` and `most`, or one number for a range around `middle`, as in torchvision: brightness 0.4
// is [0.6, 1.4], hue 0.1 is [-0.1, 0.1], degrees 30 is [-30, 30].
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
            low = std::max(low, 0.0);  // torchvision clips factors at 0
        }
    }
    if (!(low >= least && low <= high && high <= most)) {
        options.refuse(name, fmt::format("a range within {} and {}, low <= high", least, most));
    }
    return {static_cast<float>(low), static_cast<float>(high)};
}

// The interpolation of a resize; bilinear if it is missing, empty for "random".
std::optional<Interpolation> read_interpolation(OpOptions& options, bool may_be_random) {
    constexpr Interpolation kModes[] = {Interpolation::bilinear, Interpolation::nearest, Interpolation::bicubic,
                                        Interpolation::lanczos};
    std::vector<std::string> names = {"bilinear", "nearest", "bicubic", "lanczos"};
    if (may_be_random) {
        names.emplace_back("random");
    }
    const std::size_t chosen = options.choice("interpolation", names);
    return chosen < std::size(kModes) ? std::optional(kModes[chosen]) : std::nullopt;
}

Op make_resize(OpOptions& options) {
    const bool exact = options.numbers("size", {}, 1, 2).size() == 2;
    const ImageSize size = options.size();
    const Interpolation interpolation = *read_interpolation(options, /*may_be_random=*/false);
    return exact ? Resize{.size = size, .interpolation = interpolation}
                 : Resize{.shorter = size.height, .interpolation = interpolation};
}

Op make_center_crop(OpOptions& options) {
    const ImageSize size = options.size();
    return CenterCrop{size.height, size.width};
}

Op make_random_resized_crop(OpOptions& options) {
    const ImageSize size = options.size();
    const FactorRange scale = read_range(options, "scale", {0.08, 1}, 1e-6, 1);
    const FactorRange ratio = read_range(options, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1e-6, 1000);
    return RandomResizedCrop{.height = size.height,
                             .width = size.width,
                             .scale_low = scale.low,
                             .scale_high = scale.high,
                             .ratio_low = ratio.low,
                             .ratio_high = ratio.high,
                             .interpolation = read_interpolation(options, /*may_be_random=*/true)};
}

Op make_aspect_crop(OpOptions& options) {
    constexpr int kMost = 1 << 15;
    AspectCrop crop{.size = options.whole("size", {}, 1, kMost)};
    int step = 64;
    while (crop.size % step != 0) {
        step /= 2;
    }
    crop.step = options.whole("step", step, 1, kMost);
    crop.max_ratio = static_cast<float>(options.number("max_ratio", 2, 1, 1000));
    crop.random = options.flag("random", true);
    crop.interpolation = *read_interpolation(options, /*may_be_random=*/false);
    if (crop.size % crop.step != 0) {
        options.refuse("step", fmt::format("a divisor of the size, {}", crop.size));
    }
    return AspectCropOp{.crop = crop, .sizes = aspect_sizes(crop)};
}

Padding read_padding(OpOptions& options) {
    constexpr int kMaxPadding = 1 << 15;
    const std::vector<double> list = options.numbers("padding", {0}, 1, 4);
    std::vector<int> sides;
    for (const double side : list) {
        if (!(side >= 0 && side <= kMaxPadding && side == std::floor(side))) {
            options.refuse("padding", fmt::format("whole pixels from 0 to {}", kMaxPadding));
        }
        sides.push_back(static_cast<int>(side));
    }
    if (sides.size() == 3) {
        options.refuse("padding", "a number, [left and right, top and bottom] or [left, top, right, bottom]");
    }
    const std::size_t count = sides.size();
    return {sides[0], sides[1 % count], sides[2 % count], sides[3 % count]};
}

Op make_random_crop(OpOptions& options) {
    const ImageSize size = options.size();
    constexpr PaddingMode kModes[] = {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect,
                                      PaddingMode::symmetric};
    return RandomCrop{.height = size.height,
                      .width = size.width,
                      .padding = read_padding(options),
                      .pad_if_needed = options.flag("pad_if_needed", false),
                      .mode = kModes[options.choice("padding_mode", {"constant", "edge", "reflect", "symmetric"})],
                      .fill = options.color("fill")};
}

Op make_horizontal_flip(OpOptions& options) {
    return HorizontalFlip{options.probability(0.5)};
}

Op make_normalize(OpOptions& options) {
    constexpr Normalize kPresets[] = {kImageNetNormalize, kMnistNormalize, kCifar10Normalize};
    Normalize op;
    if (options.has("preset")) {
        op = kPresets[options.choice("preset", {"imagenet", "mnist", "cifar10"})];
    }
    const auto fill = [&](const char* name, std::array<float, kMaxChannels>& values, bool positive) {
        const auto list = options.numbers(name, {}, 1, kMaxChannels);
        for (const double number : list) {
            const float value = static_cast<float>(number);
            if (!std::isfinite(value) || (positive && value <= 0)) {
                options.refuse(name, positive ? "finite numbers above 0" : "finite numbers");
            }
        }
        const int count = static_cast<int>(list.size());
        if (count > 1 && op.channels != 0 && op.channels != count) {
            options.refuse(name, fmt::format("{} numbers, or one for all channels", op.channels));
        }
        op.channels = count > 1 ? count : op.channels;
        for (std::size_t i = 0; i < values.size() && !list.empty(); ++i) {
            values[i] = static_cast<float>(list[std::min(i, list.size() - 1)]);
        }
    };
    fill("mean", op.mean, false);
    fill("std", op.std, true);
    return op;
}

Op make_normalize_range(OpOptions& options) {
    Normalize op{.by = NormalizeBy::min_max, .channel_wise = options.flag("channel_wise", false)};
    if (options.has("percentiles")) {
        const std::vector<double> range = options.numbers("percentiles", {}, 2, 2);
        if (!(range[0] >= 0 && range[0] < range[1] && range[1] <= 100)) {
            options.refuse("percentiles", "[low, high] with 0 <= low < high <= 100");
        }
        op.by = NormalizeBy::percentiles;
        op.percentiles = {range[0], range[1]};
    }
    return op;
}

Op make_to_float(OpOptions& options) {
    return ToFloat{.scale = options.flag("scale", true)};
}

// Computed tomography's: `center` and `width` in stored values, as DICOM's linear_exact function has them.
Op make_window(OpOptions& options) {
    constexpr double kMost = 1e30;
    const double center = options.number("center", std::nullopt, -kMost, kMost);
    const double width = options.number("width", std::nullopt, 1e-6, kMost);
    const auto low = static_cast<float>(center - width / 2);
    const auto high = static_cast<float>(center + width / 2);
    if (!(low < high)) {
        options.refuse("width", "one that float32 can add to the center");
    }
    return ToFloat{.window = {{low, high}}};
}

Op make_vertical_flip(OpOptions& options) {
    return PixelOp(VerticalFlip{options.probability(0.5)});
}

FactorRange read_degrees(OpOptions& options) {
    if (!options.has("degrees")) {
        options.refuse("degrees", "a number of at least 0, or [low, high]");
    }
    return range_around(options, "degrees", 0, -3600, 3600);
}

Op make_random_rotation(OpOptions& options) {
    const FactorRange degrees = read_degrees(options);
    return PixelOp(RandomRotation{.low = degrees.low,
                                  .high = degrees.high,
                                  .interpolation = options.interpolation(),
                                  .fill = options.color("fill"),
                                  .probability = options.probability(1)});
}

Op make_random_affine(OpOptions& options) {
    RandomAffine op{.degrees = read_degrees(options)};
    const std::vector<double> translate = options.numbers("translate", {0, 0}, 2, 2);
    for (std::size_t i = 0; i < translate.size(); ++i) {
        if (!(translate[i] >= 0 && translate[i] <= 1)) {
            options.refuse("translate", "[x, y], shares of the width and the height from 0 to 1");
        }
        op.translate[i] = static_cast<float>(translate[i]);
    }
    op.scale = read_range(options, "scale", {1, 1}, 1e-3, 1000);
    const std::vector<double> shear = options.numbers("shear", {0}, 1, 4);
    if (shear.size() == 3) {
        options.refuse("shear", "a number, [low, high], or [low, high] for x and for y in one list");
    }
    if (shear.size() == 4) {
        op.shear_x = checked_range(options, "shear", shear[0], shear[1], -89, 89);
        op.shear_y = checked_range(options, "shear", shear[2], shear[3], -89, 89);
    } else {
        op.shear_x = range_around(options, "shear", 0, -89, 89);
    }
    op.interpolation = options.interpolation();
    op.fill = options.color("fill");
    op.probability = options.probability(1);
    return PixelOp(op);
}

Op make_color_jitter(OpOptions& options) {
    const double most = kMaxColorFactor;
    return PixelOp(ColorJitter{.brightness = range_around(options, "brightness", 1, 0, most),
                               .contrast = range_around(options, "contrast", 1, 0, most),
                               .saturation = range_around(options, "saturation", 1, 0, most),
                               .hue = range_around(options, "hue", 0, -0.5, 0.5),
                               .probability = options.probability(1)});
}

Op make_random_grayscale(OpOptions& options) {
    return PixelOp(RandomGrayscale{options.probability(0.1)});
}

Op make_grayscale(OpOptions& /*options*/) {
    return PixelOp(RandomGrayscale{1});
}

Op make_random_erasing(OpOptions& options) {
    const FactorRange scale = read_range(options, "scale", {0.02, 0.33}, 0, 1);
    const FactorRange ratio = read_range(options, "ratio", {0.3, 3.3}, 1e-6, 1000);
    RandomErasing op{.probability = options.probability(0.5),
                     .scale_low = scale.low,
                     .scale_high = scale.high,
                     .ratio_low = ratio.low,
                     .ratio_high = ratio.high};
    if (options.is_text("value")) {
        options.choice("value", {"random"});
        op.value.reset();
    } else {
        op.value = options.color("value");
    }
    return PixelOp(op);
}

Fill read_fill(OpOptions& options) {
    return options.has("fill") ? Fill{options.color("fill")} : Fill{};
}

Op make_trivial_augment_wide(OpOptions& options) {
    return PixelOp(TrivialAugmentWide{.bins = options.whole("num_magnitude_bins", 31, 2, 1000),
                                      .interpolation = options.interpolation(),
                                      .fill = read_fill(options)});
}

Op make_rand_augment(OpOptions& options) {
    RandAugment op{.num_ops = options.whole("num_ops", 2, 0, 100),
                   .bins = options.whole("num_magnitude_bins", 31, 2, 1000),
                   .interpolation = options.interpolation(),
                   .fill = read_fill(options)};
    op.magnitude = options.whole("magnitude", 9, 0, op.bins - 1);
    if (op.magnitude >= op.bins) {
        options.refuse("magnitude", "a magnitude below num_magnitude_bins");
    }
    return PixelOp(op);
}

// A deviation of more than 100 means uniform magnitudes, as in timm's configurations.
Op make_timm_rand_augment(OpOptions& options) {
    constexpr double kMost = 30;
    constexpr double kMostDeviation = 1000;
    TimmRandAugment op{.num_ops = options.whole("num_ops", 2, 0, 100),
                       .magnitude = static_cast<float>(options.number("magnitude", 10, 0, kMost)),
                       .magnitude_std = static_cast<float>(options.number("magnitude_std", 0, 0, kMostDeviation)),
                       .most = static_cast<float>(options.number("max_magnitude", 10, 1, kMost)),
                       .increasing = options.flag("increasing", false),
                       .probability = options.probability(0.5),
                       .fill = read_fill(options)};
    constexpr Interpolation kModes[] = {Interpolation::bilinear, Interpolation::bicubic, Interpolation::nearest};
    const std::size_t chosen = options.choice("interpolation", {"random", "bilinear", "bicubic", "nearest"});
    op.interpolation = chosen == 0 ? std::nullopt : std::optional(kModes[chosen - 1]);
    return PixelOp(op);
}

Interpolation bilinear_or_nearest(OpOptions& options) {
    return options.choice("interpolation", {"bilinear", "nearest"}) == 0 ? Interpolation::bilinear
                                                                         : Interpolation::nearest;
}

Op make_random_perspective(OpOptions& options) {
    return PixelOp(RandomPerspective{.distortion = static_cast<float>(options.number("distortion_scale", 0.5, 0, 1)),
                                     .interpolation = bilinear_or_nearest(options),
                                     .fill = options.color("fill"),
                                     .probability = options.probability(0.5)});
}

Op make_elastic_transform(OpOptions& options) {
    const std::vector<double> alpha = options.numbers("alpha", {50}, 1, 2);
    const std::vector<double> sigma = options.numbers("sigma", {5}, 1, 2);
    const bool usual = std::ranges::all_of(sigma, [](double s) { return s >= 0 && s <= kMaxElasticSigma; });
    if (!usual) {
        options.refuse("sigma", fmt::format("a number from 0 to {}, or [x, y]", kMaxElasticSigma));
    }
    return PixelOp(ElasticTransform{.alpha = {static_cast<float>(alpha.front()), static_cast<float>(alpha.back())},
                                    .sigma = {static_cast<float>(sigma.front()), static_cast<float>(sigma.back())},
                                    .interpolation = bilinear_or_nearest(options),
                                    .fill = options.color("fill"),
                                    .probability = options.probability(1)});
}

Op make_auto_augment(OpOptions& options) {
    constexpr AutoAugmentPolicy kPolicies[] = {AutoAugmentPolicy::imagenet, AutoAugmentPolicy::cifar10,
                                               AutoAugmentPolicy::svhn};
    return PixelOp(AutoAugment{.policy = kPolicies[options.choice("policy", {"imagenet", "cifar10", "svhn"})],
                               .interpolation = options.interpolation(),
                               .fill = read_fill(options)});
}

Op make_gaussian_blur(OpOptions& options) {
    const std::vector<double> list = options.numbers("kernel_size", {}, 1, 2);
    const bool odd = std::ranges::all_of(
        list, [](double side) { return side >= 1 && side <= kMaxBlurKernel && std::fmod(side, 2) == 1; });
    if (list.empty() || !odd) {
        options.refuse("kernel_size", fmt::format("an odd number from 1 to {}, or [x, y]", kMaxBlurKernel));
    }
    const std::vector<double> sigma = options.numbers("sigma", {0.1, 2}, 1, 2);
    const FactorRange range = checked_range(options, "sigma", sigma.front(), sigma.back(), 1e-6, 1e6);
    return PixelOp(GaussianBlur{.width = static_cast<int>(list.front()),
                                .height = static_cast<int>(list.back()),
                                .sigma_low = range.low,
                                .sigma_high = range.high,
                                .probability = options.probability(1)});
}

Op random_photometric(OpOptions& options, Photometric kind, double amount = 0) {
    return PixelOp(
        RandomPhotometric{.kind = kind, .amount = static_cast<float>(amount), .probability = options.probability(0.5)});
}

Op make_random_posterize(OpOptions& options) {
    return random_photometric(options, Photometric::posterize, options.whole("bits", std::nullopt, 0, 8));
}

Op make_random_solarize(OpOptions& options) {
    return random_photometric(options, Photometric::solarize, options.number("threshold", std::nullopt, 0, 255));
}

Op make_random_adjust_sharpness(OpOptions& options) {
    const double factor = options.number("sharpness_factor", std::nullopt, 0, kMaxColorFactor);
    return random_photometric(options, Photometric::sharpness, factor);
}

Op make_random_invert(OpOptions& options) {
    return random_photometric(options, Photometric::invert);
}

Op make_random_equalize(OpOptions& options) {
    return random_photometric(options, Photometric::equalize);
}

Op make_random_autocontrast(OpOptions& options) {
    return random_photometric(options, Photometric::autocontrast);
}

struct Entry {
    const char* name;
    MakeOp make;
};
constexpr Entry kOps[] = {
    {"random_resized_crop", make_random_resized_crop},
    {"aspect_crop", make_aspect_crop},
    {"resize", make_resize},
    {"center_crop", make_center_crop},
    {"random_crop", make_random_crop},
    {"horizontal_flip", make_horizontal_flip},
    {"vertical_flip", make_vertical_flip},
    {"random_rotation", make_random_rotation},
    {"random_affine", make_random_affine},
    {"random_perspective", make_random_perspective},
    {"elastic_transform", make_elastic_transform},
    {"color_jitter", make_color_jitter},
    {"grayscale", make_grayscale},
    {"random_grayscale", make_random_grayscale},
    {"random_invert", make_random_invert},
    {"random_posterize", make_random_posterize},
    {"random_solarize", make_random_solarize},
    {"random_equalize", make_random_equalize},
    {"random_autocontrast", make_random_autocontrast},
    {"random_adjust_sharpness", make_random_adjust_sharpness},
    {"gaussian_blur", make_gaussian_blur},
    {"trivial_augment_wide", make_trivial_augment_wide},
    {"rand_augment", make_rand_augment},
    {"auto_augment", make_auto_augment},
    {"timm_rand_augment", make_timm_rand_augment},
    {"random_erasing", make_random_erasing},
    {"to_float", make_to_float},
    {"window", make_window},
    {"normalize", make_normalize},
    {"normalize_range", make_normalize_range},
};

}  // namespace

MakeOp image_op_maker(const std::string& name) {
    const auto* const entry = std::ranges::find(kOps, name, &Entry::name);
    return entry == std::end(kOps) ? nullptr : entry->make;
}

std::vector<std::string> image_op_names() {
    std::vector<std::string> names;
    std::ranges::transform(kOps, std::back_inserter(names), &Entry::name);
    return names;
}

}  // namespace stoker
