// The levels of timm/data/auto_augment.py (1.0): whole bits, thresholds and additions are cut, not rounded.
#include "stoker/ops/timm_rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stoker {
namespace {

// In timm's order.
constexpr std::array kOps = {
    AugmentOp::autocontrast, AugmentOp::equalize,     AugmentOp::invert,  AugmentOp::rotate,   AugmentOp::posterize,
    AugmentOp::solarize,     AugmentOp::solarize_add, AugmentOp::color,   AugmentOp::contrast, AugmentOp::brightness,
    AugmentOp::sharpness,    AugmentOp::shear_x,      AugmentOp::shear_y, AugmentOp::shift_x,  AugmentOp::shift_y};

// `share` of an op's range, from 0 on; beyond 1 if `most` allows it.
double magnitude_of(const TimmRandAugment& op, AugmentOp kind, double share, ImageSize image, Rng& rng) {
    const auto either = [&rng](double value) { return rng.chance(0.5f) ? -value : value; };
    const auto cut = [share](double range) { return std::trunc(share * range); };
    switch (kind) {
        case AugmentOp::rotate:
            return either(30 * share);
        case AugmentOp::posterize:
            return std::clamp(op.increasing ? 4 - cut(4) : cut(4), 0.0, 8.0);
        case AugmentOp::solarize: {
            const double threshold = std::min(256.0, cut(256));
            return std::max(op.increasing ? 256 - threshold : threshold, 0.0) / 255;
        }
        case AugmentOp::solarize_add:
            return std::min(128.0, cut(110));
        case AugmentOp::color:
        case AugmentOp::contrast:
        case AugmentOp::brightness:
        case AugmentOp::sharpness:
            return op.increasing ? std::max(0.1 - 1, either(0.9 * share)) : 1.8 * share + 0.1 - 1;
        case AugmentOp::shear_x:
        case AugmentOp::shear_y:
            return either(0.3 * share);
        case AugmentOp::shift_x:
            return either(0.45 * share * image.width);
        case AugmentOp::shift_y:
            return either(0.45 * share * image.height);
        default:
            return 0;
    }
}

}  // namespace

AugmentParams draw_timm_rand_augment(const TimmRandAugment& op, ImageSize image, Rng& rng) {
    constexpr double kWhole = 10;    // magnitudes of 0 to 10 are an op's range
    constexpr float kUniform = 100;  // from this standard deviation on
    AugmentParams params{.fill = op.fill};
    params.op = kOps[rng.below(kOps.size())];
    const bool applies = rng.chance(op.probability);
    double magnitude = op.magnitude;
    if (op.magnitude_std > kUniform) {
        magnitude = rng.uniform(0, op.magnitude);
    } else if (op.magnitude_std > 0) {
        magnitude += op.magnitude_std * rng.normal();
    }
    const double share = std::clamp<double>(magnitude, 0, op.most) / kWhole;
    params.magnitude = magnitude_of(op, params.op, share, image, rng);
    params.interpolation =
        op.interpolation.value_or(rng.chance(0.5f) ? Interpolation::bilinear : Interpolation::bicubic);
    const bool changes_nothing = params.op == AugmentOp::solarize && params.magnitude > 1;  // a threshold of 256
    if (!applies || changes_nothing) {
        params.op = AugmentOp::identity;
    }
    return params;
}

}  // namespace stoker
