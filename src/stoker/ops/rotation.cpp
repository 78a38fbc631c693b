// torchvision's rotate is counter-clockwise and its affine clockwise, hence the negative angle.
#include "stoker/ops/rotation.h"

#include <fmt/format.h>

#include <cmath>

#include "stoker/base/error.h"

namespace stoker {

float draw_random_rotation(const RandomRotation& op, Rng& rng) {
    if (!(op.low <= op.high) || !std::isfinite(op.high - op.low)) {
        throw InvalidArgument({.where = "random_rotation",
                               .expected = "finite degrees with low <= high",
                               .got = fmt::format("{} to {}", op.low, op.high)});
    }
    return op.probability < 1 && !rng.chance(op.probability) ? 0 : rng.uniform(op.low, op.high);
}

AffineParams rotation_of(double degrees) {
    return {.angle = -std::fmod(std::fmod(degrees, 360.0) + 360.0, 360.0)};
}

void rotate(ImageView image, double degrees, Interpolation interpolation, const Fill& fill, Image& scratch) {
    if (const AffineParams turn = rotation_of(degrees); turn.angle != 0) {
        affine(image, turn, interpolation, fill, scratch);
    }
}

}  // namespace stoker
