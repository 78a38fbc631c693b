// Computes torchvision's magnitudes, including their float32 rounding, and calls the other ops.
#include "stoker/ops/trivial_augment.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "stoker/base/error.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/photometric.h"
#include "stoker/ops/rotation.h"

namespace stoker {
namespace {

// torch.linspace: float32 steps from the nearer end.
double linspace(float first, float last, int bin, int bins) {
    const float step = (last - first) / static_cast<float>(bins - 1);
    const float value = bin < bins / 2 ? std::fma(step, static_cast<float>(bin), first)
                                       : std::fma(-step, static_cast<float>(bins - 1 - bin), last);
    return static_cast<double>(value);
}

bool has_sign(TrivialOp op) {
    return op >= TrivialOp::shear_x && op <= TrivialOp::sharpness;
}

bool has_magnitude(TrivialOp op) {
    return op >= TrivialOp::shear_x && op <= TrivialOp::solarize;
}

void move(ImageView image, const AffineParams& affine_move, const TrivialAugmentParams& params, Image& scratch) {
    scratch.reset(image.height, image.width, image.channels);
    copy_pixels(image, scratch.view());
    affine(scratch.view(), inverse_matrix(affine_move), params.interpolation, params.fill, image);
}

// Shears keep the image's top left corner in place.
AffineParams sheared(ImageView image, double x, double y) {
    const auto degrees = [](double slope) { return std::atan(slope) * 180.0 / std::numbers::pi; };
    return {.shear = {degrees(x), degrees(y)}, .center = {-0.5 * image.width, -0.5 * image.height}};
}

}  // namespace

double trivial_magnitude(TrivialOp op, int bin, int bins) {
    switch (op) {
        case TrivialOp::translate_x:
        case TrivialOp::translate_y:
            return linspace(0, 32, bin, bins);
        case TrivialOp::rotate:
            return linspace(0, 135, bin, bins);
        case TrivialOp::posterize:
            return std::nearbyint(8.0f - static_cast<float>(bin) / static_cast<float>((bins - 1) / 6.0));
        case TrivialOp::solarize:
            return linspace(1, 0, bin, bins);
        default:
            return has_magnitude(op) ? linspace(0, 0.99f, bin, bins) : 0;
    }
}

TrivialAugmentParams draw_trivial_augment(const TrivialAugmentWide& op, Rng& rng) {
    if (op.bins < 2) {
        throw InvalidArgument(
            {.where = "trivial_augment_wide", .expected = "at least 2 bins", .got = fmt::to_string(op.bins)});
    }
    TrivialAugmentParams params{.interpolation = op.interpolation, .fill = op.fill};
    params.op = static_cast<TrivialOp>(rng.below(kTrivialOps));
    if (has_magnitude(params.op)) {
        const auto bin = static_cast<int>(rng.below(static_cast<std::uint32_t>(op.bins)));
        params.magnitude = trivial_magnitude(params.op, bin, op.bins);
    }
    if (has_sign(params.op) && rng.chance(0.5f)) {
        params.magnitude = -params.magnitude;
    }
    return params;
}

void trivial_augment(ImageView image, const TrivialAugmentParams& params, Image& scratch) {
    const double magnitude = params.magnitude;
    const auto factor = static_cast<float>(1.0 + magnitude);
    switch (params.op) {
        case TrivialOp::identity:
            return;
        case TrivialOp::shear_x:
            return move(image, sheared(image, magnitude, 0), params, scratch);
        case TrivialOp::shear_y:
            return move(image, sheared(image, 0, magnitude), params, scratch);
        case TrivialOp::translate_x:
            return move(image, {.translate = {std::trunc(magnitude), 0}}, params, scratch);
        case TrivialOp::translate_y:
            return move(image, {.translate = {0, std::trunc(magnitude)}}, params, scratch);
        case TrivialOp::rotate:
            return rotate(image, magnitude, params.interpolation, params.fill, scratch);
        case TrivialOp::brightness:
            return color_jitter(image, {.brightness = factor});
        case TrivialOp::color:
            return color_jitter(image, {.saturation = factor});
        case TrivialOp::contrast:
            return color_jitter(image, {.contrast = factor});
        case TrivialOp::sharpness:
            return adjust_sharpness(image, factor, scratch);
        case TrivialOp::posterize:
            return posterize(image, static_cast<int>(magnitude));
        case TrivialOp::solarize:
            return solarize(image, static_cast<float>(255.0 * magnitude));
        case TrivialOp::autocontrast:
            return autocontrast(image);
        case TrivialOp::equalize:
            return equalize(image);
    }
}

}  // namespace stoker
