// The ops of torchvision's TrivialAugmentWide, RandAugment and AutoAugment, and of timm's RandAugment, and their
// magnitudes.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/photometric.h"
#include "stoker/ops/resize.h"

namespace stoker {

// In torchvision's order.
enum class AugmentOp {
    identity,
    shear_x,
    shear_y,
    translate_x,
    translate_y,
    rotate,
    brightness,
    color,
    contrast,
    sharpness,
    posterize,
    solarize,
    autocontrast,
    equalize,
    invert,        // AutoAugment's and timm's
    solarize_add,  // this and those that follow: timm's
    shift_x,       // translations by fractions of pixels
    shift_y,
};
inline constexpr std::uint32_t kAugmentOps = 14;  // torchvision's random ones

// The largest magnitudes. Solarize always has thresholds from 255 down to 0.
struct AugmentSpace {
    float slope = 0.99f;                 // of shears
    std::array<float, 2> shift{32, 32};  // x, y in pixels
    float degrees = 135;
    float factor = 0.99f;  // the distance of a colour factor from 1
    int bits = 6;          // taken away by posterize
};
inline constexpr AugmentSpace kWideSpace{};  // TrivialAugmentWide's
// RandAugment's and AutoAugment's.
AugmentSpace augment_space(ImageSize image);

// The unsigned magnitude of bin 0 <= bin < bins; 0 for ops without a magnitude.
double augment_magnitude(const AugmentSpace& space, AugmentOp op, int bin, int bins);

// The magnitude with a random sign, for ops that have one.
double draw_sign(AugmentOp op, double magnitude, Rng& rng);

struct AugmentParams {
    AugmentOp op = AugmentOp::identity;
    double magnitude = 0;  // signed; the unit depends on the op
    Interpolation interpolation = Interpolation::nearest;
    Fill fill{};
};

// timm's SolarizeAdd: adds `amount`, 0 to 255, to values below 128.
struct SolarizeAdd {
    int amount = 0;
};

// The op as a call of other ops, with their parameters.
using AugmentStep = std::variant<std::monostate, AffineParams, ColorJitterParams, RandomPhotometric, SolarizeAdd>;
AugmentStep augment_step(const AugmentParams& params, ImageSize image);

// In place, C = 1 or 3. `scratch` holds copies of the original. Throws DataError for other shapes.
void augment(ImageView image, const AugmentParams& params, Image& scratch);

}  // namespace stoker
