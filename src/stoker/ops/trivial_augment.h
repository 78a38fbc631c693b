// torchvision's TrivialAugmentWide: applies one of fourteen ops with one of `bins` magnitudes.
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
    Fill fill{};
};

struct TrivialAugmentParams {
    TrivialOp op = TrivialOp::identity;
    double magnitude = 0;  // signed; the unit depends on the op
    Interpolation interpolation = Interpolation::nearest;
    Fill fill{};
};

// The unsigned magnitude of bin 0 <= bin < bins; 0 for ops without a magnitude.
double trivial_magnitude(TrivialOp op, int bin, int bins);

TrivialAugmentParams draw_trivial_augment(const TrivialAugmentWide& op, Rng& rng);

// In place, C = 1 or 3. `scratch` holds copies of the original. Throws DataError for other shapes.
void trivial_augment(ImageView image, const TrivialAugmentParams& params, Image& scratch);

}  // namespace stoker
