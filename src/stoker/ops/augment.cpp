// Computes torchvision's magnitudes, including their float32 rounding, and calls the other ops.
#include "stoker/ops/augment.h"

#include <cmath>
#include <numbers>

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

bool has_sign(AugmentOp op) {
    return op >= AugmentOp::shear_x && op <= AugmentOp::sharpness;
}

// Shears keep the image's top left corner in place.
AffineParams sheared(ImageView image, double x, double y) {
    const auto degrees = [](double slope) { return std::atan(slope) * 180.0 / std::numbers::pi; };
    return {.shear = {degrees(x), degrees(y)}, .center = {-0.5 * image.width, -0.5 * image.height}};
}

}  // namespace

AugmentSpace augment_space(ImageSize image) {
    const auto share = [](int length) { return static_cast<float>(150.0 / 331.0 * length); };
    return {
        .slope = 0.3f, .shift = {share(image.width), share(image.height)}, .degrees = 30, .factor = 0.9f, .bits = 4};
}

double augment_magnitude(const AugmentSpace& space, AugmentOp op, int bin, int bins) {
    switch (op) {
        case AugmentOp::shear_x:
        case AugmentOp::shear_y:
            return linspace(0, space.slope, bin, bins);
        case AugmentOp::translate_x:
            return linspace(0, space.shift[0], bin, bins);
        case AugmentOp::translate_y:
            return linspace(0, space.shift[1], bin, bins);
        case AugmentOp::rotate:
            return linspace(0, space.degrees, bin, bins);
        case AugmentOp::brightness:
        case AugmentOp::color:
        case AugmentOp::contrast:
        case AugmentOp::sharpness:
            return linspace(0, space.factor, bin, bins);
        case AugmentOp::posterize: {
            const double bins_per_bit = (bins - 1) / static_cast<double>(space.bits);
            return std::nearbyint(8.0f - static_cast<float>(bin) / static_cast<float>(bins_per_bit));
        }
        case AugmentOp::solarize:
            return linspace(1, 0, bin, bins);
        default:
            return 0;
    }
}

double draw_sign(AugmentOp op, double magnitude, Rng& rng) {
    return has_sign(op) && rng.chance(0.5f) ? -magnitude : magnitude;
}

void augment(ImageView image, const AugmentParams& params, Image& scratch) {
    const double magnitude = params.magnitude;
    const auto move = [&](const AffineParams& by) { affine(image, by, params.interpolation, params.fill, scratch); };
    const auto factor = static_cast<float>(1.0 + magnitude);
    switch (params.op) {
        case AugmentOp::identity:
            return;
        case AugmentOp::shear_x:
            return move(sheared(image, magnitude, 0));
        case AugmentOp::shear_y:
            return move(sheared(image, 0, magnitude));
        case AugmentOp::translate_x:
            return move({.translate = {std::trunc(magnitude), 0}});
        case AugmentOp::translate_y:
            return move({.translate = {0, std::trunc(magnitude)}});
        case AugmentOp::shift_x:
            return move({.translate = {magnitude, 0}});
        case AugmentOp::shift_y:
            return move({.translate = {0, magnitude}});
        case AugmentOp::rotate:
            return rotate(image, magnitude, params.interpolation, params.fill, scratch);
        case AugmentOp::brightness:
            return color_jitter(image, {.brightness = factor});
        case AugmentOp::color:
            return color_jitter(image, {.saturation = factor});
        case AugmentOp::contrast:
            return color_jitter(image, {.contrast = factor});
        case AugmentOp::sharpness:
            return adjust_sharpness(image, factor, scratch);
        case AugmentOp::posterize:
            return posterize(image, static_cast<int>(magnitude));
        case AugmentOp::solarize:
            return solarize(image, static_cast<float>(255.0 * magnitude));
        case AugmentOp::autocontrast:
            return autocontrast(image);
        case AugmentOp::equalize:
            return equalize(image);
        case AugmentOp::invert:
            return invert(image);
        case AugmentOp::solarize_add:
            return solarize_add(image, static_cast<int>(magnitude));
    }
}

}  // namespace stoker
