// Draws in torchvision's order: angle, shift in x and y, scale, shear in x and y.
#include "stoker/ops/random_affine.h"

#include <fmt/format.h>

#include <cmath>

#include "stoker/base/error.h"

namespace stoker {
namespace {

bool within(const FactorRange& range, float least, float most) {
    return least <= range.low && range.low <= range.high && range.high <= most;
}

void check(const RandomAffine& op) {
    const auto share = [](float value) { return value >= 0 && value <= 1; };
    if (!within(op.degrees, -3600, 3600) || !share(op.translate[0]) || !share(op.translate[1]) ||
        !within(op.scale, 1e-6f, 1e6f) || !within(op.shear_x, -89, 89) || !within(op.shear_y, -89, 89)) {
        throw InvalidArgument(
            {.where = "random_affine",
             .expected = "ranges with low <= high: degrees within -3600 and 3600, shears within -89 and 89, scales "
                         "within 1e-6 and 1e6, and shifts from 0 to 1",
             .got = fmt::format("degrees {} to {}, translate {}, {}, scale {} to {}, shear {} to {} and {} to {}",
                                op.degrees.low, op.degrees.high, op.translate[0], op.translate[1], op.scale.low,
                                op.scale.high, op.shear_x.low, op.shear_x.high, op.shear_y.low, op.shear_y.high)});
    }
}

}  // namespace

AffineParams draw_random_affine(const RandomAffine& op, ImageSize image, Rng& rng) {
    check(op);
    const auto drawn = [&](const FactorRange& range) {
        return static_cast<double>(rng.uniform(range.low, range.high));
    };
    const auto shift = [&](float share, int length) {
        const float most = share * static_cast<float>(length);
        return std::nearbyint(drawn({-most, most}));  // halves to even, as Python's round
    };
    AffineParams params;
    if (op.probability < 1 && !rng.chance(op.probability)) {
        return params;
    }
    params.angle = drawn(op.degrees);
    params.translate[0] = shift(op.translate[0], image.width);
    params.translate[1] = shift(op.translate[1], image.height);
    params.scale = drawn(op.scale);
    params.shear[0] = drawn(op.shear_x);
    params.shear[1] = drawn(op.shear_y);
    return params;
}

}  // namespace stoker
