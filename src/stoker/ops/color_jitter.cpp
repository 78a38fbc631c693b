// Converts the drawn factors to stages of the kernels. The first pass runs the stages before contrast and sums the
// greys; the second pass runs contrast and the stages after it.
#include "stoker/ops/color_jitter.h"

#include <fmt/format.h>

#include <utility>

#include "stoker/base/error.h"
#include "stoker/ops/color_kernels.h"
#include "stoker/ops/color_pixel.h"

namespace stoker {
namespace {

void check(const FactorRange& range, const char* name, float low, float high) {
    if (!(range.low >= low && range.low <= range.high && range.high <= high)) {
        throw InvalidArgument({.where = "color_jitter",
                               .expected = fmt::format("{} <= low <= high <= {} for {}", low, high, name),
                               .got = fmt::format("{} to {}", range.low, range.high)});
    }
}

}  // namespace

ColorJitterParams draw_color_jitter(const ColorJitter& op, Rng& rng) {
    check(op.brightness, "brightness", 0, kMaxColorFactor);
    check(op.contrast, "contrast", 0, kMaxColorFactor);
    check(op.saturation, "saturation", 0, kMaxColorFactor);
    check(op.hue, "hue", -0.5f, 0.5f);
    ColorJitterParams params;
    if (op.probability < 1 && !rng.chance(op.probability)) {
        return params;
    }
    for (std::uint32_t i = 3; i > 0; --i) {
        std::swap(params.order[i], params.order[rng.below(i + 1)]);
    }
    params.brightness = rng.uniform(op.brightness.low, op.brightness.high);
    params.contrast = rng.uniform(op.contrast.low, op.contrast.high);
    params.saturation = rng.uniform(op.saturation.low, op.saturation.high);
    params.hue = rng.uniform(op.hue.low, op.hue.high);
    return params;
}

void color_jitter_with(const ColorKernels& kernels, ImageView image, const ColorJitterParams& params) {
    check_color_channels("color_jitter", image);
    std::array<ColorStage, 4> stages;
    std::size_t count = 0;
    for (const Adjust adjust : params.order) {
        if (adjust == Adjust::brightness && params.brightness != 1.0f) {
            stages[count++] = {.step = ColorStep::scale, .factor = params.brightness};
        } else if (adjust == Adjust::contrast && params.contrast != 1.0f) {
            const float mean = run_color_to_mean(kernels, image, {stages.data(), count});
            stages[0] = {ColorStep::contrast, params.contrast, color_pixel::rest_of(params.contrast), mean};
            count = 1;
        } else if (adjust == Adjust::saturation && params.saturation != 1.0f && image.channels == 3) {
            stages[count++] = {ColorStep::saturate, params.saturation, color_pixel::rest_of(params.saturation)};
        } else if (adjust == Adjust::hue && params.hue != 0.0f && image.channels == 3) {
            stages[count++] = {.step = ColorStep::hue, .factor = params.hue};
        }
    }
    if (count > 0) {
        run_color(kernels, image, {stages.data(), count});
    }
}

void color_jitter(ImageView image, const ColorJitterParams& params) {
    color_jitter_with(color_kernels().back(), image, params);
}

}  // namespace stoker
