// The draws of RandAugment: every op with one magnitude and both signs.
#include "stoker/ops/rand_augment.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "stoker/base/error.h"

namespace stoker::rand_augment_test {
namespace {

TEST(RandAugment, DrawsEveryOpWithOneMagnitudeAndBothSigns) {
    constexpr ImageSize kSize{.height = 224, .width = 300};
    constexpr RandAugment kOp{.num_ops = 2, .magnitude = 7, .bins = 11};
    std::array<int, kAugmentOps> counts{};
    std::array<int, kAugmentOps> negative{};
    for (std::uint64_t sample = 0; sample < 14000; ++sample) {
        Rng rng({.seed = 4, .sample = sample});
        for (int i = 0; i < kOp.num_ops; ++i) {
            const AugmentParams params = draw_rand_augment(kOp, kSize, rng);
            const auto op = static_cast<std::size_t>(params.op);
            ASSERT_LT(op, counts.size());
            ++counts[op];
            negative[op] += params.magnitude < 0 ? 1 : 0;
            ASSERT_EQ(std::abs(params.magnitude), augment_magnitude(augment_space(kSize), params.op, 7, 11));
        }
    }
    for (std::size_t op = 0; op < counts.size(); ++op) {
        const bool has_sign =
            op >= static_cast<std::size_t>(AugmentOp::shear_x) && op <= static_cast<std::size_t>(AugmentOp::sharpness);
        EXPECT_NEAR(counts[op], 2000, 260) << op;  // six standard deviations
        EXPECT_NEAR(negative[op], has_sign ? counts[op] / 2 : 0, has_sign ? 135 : 0) << op;
    }
}

TEST(RandAugment, RefusesMagnitudesBeyondTheBins) {
    Rng rng({});
    EXPECT_THROW(draw_rand_augment({.magnitude = 10, .bins = 10}, {8, 8}, rng), InvalidArgument);
    EXPECT_THROW(draw_rand_augment({.magnitude = -1}, {8, 8}, rng), InvalidArgument);
    EXPECT_THROW(draw_rand_augment({.magnitude = 0, .bins = 1}, {8, 8}, rng), InvalidArgument);
}

}  // namespace
}  // namespace stoker::rand_augment_test
