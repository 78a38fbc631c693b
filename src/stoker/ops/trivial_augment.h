// torchvision's TrivialAugmentWide: one of fourteen ops, with one of `bins` magnitudes, to every image.
#pragma once

#include <cstdint>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"

namespace stoker {

// In torchvision's order.
enum class TrivialOp {
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
};
inline constexpr std::uint32_t kTrivialOps = 14;

struct TrivialAugmentWide {
    int bins = 31;  // num_magnitude_bins, at least 2
    Interpolation interpolation = Interpolation::nearest;
    Outside outside{};
};

struct TrivialAugmentParams {
    TrivialOp op = TrivialOp::identity;
    double magnitude = 0;  // signed; its unit is the op's
    Interpolation interpolation = Interpolation::nearest;
    Outside outside{};
};

// The magnitude of bin 0 <= bin < bins, without a sign; 0 for ops that have none.
double trivial_magnitude(TrivialOp op, int bin, int bins);

TrivialAugmentParams draw_trivial_augment(const TrivialAugmentWide& op, Rng& rng);

// In place, C = 1 or 3; `scratch` holds originals meanwhile.
void trivial_augment(ImageView image, const TrivialAugmentParams& params, Image& scratch);

}  // namespace stoker
