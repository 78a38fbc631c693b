#include "stoker/ops/rand_augment.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

AugmentParams draw_rand_augment(const RandAugment& op, ImageSize image, Rng& rng) {
    if (op.bins < 2 || op.magnitude < 0 || op.magnitude >= op.bins) {
        throw InvalidArgument({.where = "rand_augment",
                               .expected = "at least 2 bins and a magnitude from 0 to bins - 1",
                               .got = fmt::format("{} bins, magnitude {}", op.bins, op.magnitude)});
    }
    AugmentParams params{.interpolation = op.interpolation, .fill = op.fill};
    params.op = static_cast<AugmentOp>(rng.below(kAugmentOps));
    params.magnitude = augment_magnitude(augment_space(image), params.op, op.magnitude, op.bins);
    params.magnitude = draw_sign(params.op, params.magnitude, rng);
    return params;
}

}  // namespace stoker
