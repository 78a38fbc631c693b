// Computes torchvision's magnitudes, including their float32 rounding, and calls the other ops. Steps serve bytes and
// planes.
#include "stoker/ops/augment.h"

#include <cmath>
#include <numbers>

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
AffineParams sheared(ImageSize image, double x, double y) {
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

AugmentStep augment_step(const AugmentParams& params, ImageSize image) {
    const double magnitude = params.magnitude;
    const auto factor = static_cast<float>(1.0 + magnitude);
    switch (params.op) {
        case AugmentOp::identity:
            return {};
        case AugmentOp::shear_x:
            return sheared(image, magnitude, 0);
        case AugmentOp::shear_y:
            return sheared(image, 0, magnitude);
        case AugmentOp::translate_x:
            return AffineParams{.translate = {std::trunc(magnitude), 0}};
        case AugmentOp::translate_y:
            return AffineParams{.translate = {0, std::trunc(magnitude)}};
        case AugmentOp::shift_x:
            return AffineParams{.translate = {magnitude, 0}};
        case AugmentOp::shift_y:
            return AffineParams{.translate = {0, magnitude}};
        case AugmentOp::rotate: {
            const AffineParams turn = rotation_of(magnitude);
            return turn.angle != 0 ? AugmentStep(turn) : AugmentStep();
        }
        case AugmentOp::brightness:
            return ColorJitterParams{.brightness = factor};
        case AugmentOp::color:
            return ColorJitterParams{.saturation = factor};
        case AugmentOp::contrast:
            return ColorJitterParams{.contrast = factor};
        case AugmentOp::sharpness:
            return RandomPhotometric{.kind = Photometric::sharpness, .amount = factor};
        case AugmentOp::posterize:
            return RandomPhotometric{.kind = Photometric::posterize, .amount = static_cast<float>(magnitude)};
        case AugmentOp::solarize:
            return RandomPhotometric{.kind = Photometric::solarize, .amount = static_cast<float>(255.0 * magnitude)};
        case AugmentOp::autocontrast:
            return RandomPhotometric{.kind = Photometric::autocontrast};
        case AugmentOp::equalize:
            return RandomPhotometric{.kind = Photometric::equalize};
        case AugmentOp::invert:
            return RandomPhotometric{.kind = Photometric::invert};
        case AugmentOp::solarize_add:
            return SolarizeAdd{.amount = static_cast<int>(magnitude)};
    }
    return {};
}

namespace {

struct RunStep {
    ImageView image;
    const AugmentParams& params;
    Image& scratch;

    void operator()(std::monostate /*step*/) const {}
    void operator()(const AffineParams& by) const { affine(image, by, params.interpolation, params.fill, scratch); }
    void operator()(const ColorJitterParams& by) const { color_jitter(image, by); }
    void operator()(const RandomPhotometric& by) const { photometric(image, by, scratch); }
    void operator()(const SolarizeAdd& by) const { solarize_add(image, by.amount); }
};

}  // namespace

void augment(ImageView image, const AugmentParams& params, Image& scratch) {
    std::visit(RunStep{image, params, scratch}, augment_step(params, {image.height, image.width}));
}

}  // namespace stoker
