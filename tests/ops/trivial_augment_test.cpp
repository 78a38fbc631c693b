// The draws: every op, bin and sign.
#include "stoker/ops/trivial_augment.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "stoker/base/error.h"

namespace stoker {
namespace {

TEST(TrivialAugment, DrawsEveryOpBinAndSign) {
    std::array<int, kAugmentOps> counts{};
    int negative = 0;
    int shears = 0;
    for (std::uint64_t sample = 0; sample < 28000; ++sample) {
        Rng rng({.seed = 9, .sample = sample});
        const AugmentParams params = draw_trivial_augment({}, rng);
        ++counts[static_cast<std::size_t>(params.op)];
        if (params.op == AugmentOp::shear_x && params.magnitude != 0) {
            ++shears;
            negative += params.magnitude < 0 ? 1 : 0;
        }
        ASSERT_LE(std::abs(params.magnitude), 135);
        ASSERT_TRUE(params.magnitude >= 0 || params.op <= AugmentOp::sharpness);
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, 2000, 260);  // six standard deviations
    }
    EXPECT_NEAR(negative, shears / 2, 135);
    Rng rng({});
    EXPECT_THROW(draw_trivial_augment({.bins = 1}, rng), InvalidArgument);
}

}  // namespace
}  // namespace stoker
