#include "stoker/ops/trivial_augment.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

AugmentParams draw_trivial_augment(const TrivialAugmentWide& op, Rng& rng) {
    if (op.bins < 2) {
        throw InvalidArgument(
            {.where = "trivial_augment_wide", .expected = "at least 2 bins", .got = fmt::to_string(op.bins)});
    }
    AugmentParams params{.interpolation = op.interpolation, .fill = op.fill};
    params.op = static_cast<AugmentOp>(rng.below(kAugmentOps));
    if (params.op >= AugmentOp::shear_x && params.op <= AugmentOp::solarize) {  // the ops with a magnitude
        const auto bin = static_cast<int>(rng.below(static_cast<std::uint32_t>(op.bins)));
        params.magnitude = augment_magnitude(kWideSpace, params.op, bin, op.bins);
    }
    params.magnitude = draw_sign(params.op, params.magnitude, rng);
    return params;
}

}  // namespace stoker
