// The policies are torchvision's; the draws take every pair, and each op of a pair as often as its probability says.
#include "stoker/ops/auto_augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

#include "ops/golden.h"

namespace stoker {
namespace {

TEST(AutoAugment, PoliciesAreTorchvisions) {
    const float* wanted = testing::kPolicies;  // op, probability, bin
    for (const AutoAugmentPolicy policy :
         {AutoAugmentPolicy::imagenet, AutoAugmentPolicy::cifar10, AutoAugmentPolicy::svhn}) {
        EXPECT_EQ(policy_pairs(policy).size(), 25u);
        for (const PolicyPair& pair : policy_pairs(policy)) {
            for (const PolicyStep& step : pair) {
                EXPECT_EQ(static_cast<float>(step.op), *wanted++);
                EXPECT_EQ(step.probability, *wanted++);
                EXPECT_EQ(static_cast<float>(step.bin), *wanted++);
            }
        }
    }
    EXPECT_EQ(wanted, std::end(testing::kPolicies));
}

TEST(AutoAugment, DrawsOpsAsOftenAsTheirProbabilitiesSay) {
    constexpr ImageSize kSize{.height = 32, .width = 32};
    constexpr int kDraws = 20000;
    double wanted = 0;  // of all pairs, the mean number of translations
    for (const PolicyPair& pair : policy_pairs(AutoAugmentPolicy::cifar10)) {
        for (const PolicyStep& step : pair) {
            const bool moves = step.op == AugmentOp::translate_x || step.op == AugmentOp::translate_y;
            wanted += moves ? static_cast<double>(step.probability) / 25 : 0;
        }
    }
    int moved = 0;
    int left = 0;
    for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
        Rng rng({.seed = 3, .sample = sample});
        for (const AugmentParams& params : draw_auto_augment({.policy = AutoAugmentPolicy::cifar10}, kSize, rng)) {
            if (params.op == AugmentOp::translate_x || params.op == AugmentOp::translate_y) {
                ++moved;
                left += params.magnitude < 0 ? 1 : 0;
                ASSERT_LE(std::abs(params.magnitude), 14.502);  // 150 / 331 of the width
            }
        }
    }
    EXPECT_NEAR(moved, wanted * kDraws, 6 * std::sqrt(wanted * kDraws));
    EXPECT_NEAR(left, moved / 2, 3 * std::sqrt(moved));  // six standard deviations
}

}  // namespace
}  // namespace stoker
