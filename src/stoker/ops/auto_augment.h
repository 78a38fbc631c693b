// torchvision's AutoAugment: applies one of 25 learned pairs of ops, each op with its own probability.
#pragma once

#include <array>
#include <span>

#include "stoker/base/rng.h"
#include "stoker/ops/augment.h"

namespace stoker {

enum class AutoAugmentPolicy { imagenet, cifar10, svhn };

struct AutoAugment {
    AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;
    Interpolation interpolation = Interpolation::nearest;
    Fill fill{};
};

struct PolicyStep {
    AugmentOp op;
    float probability;
    int bin;  // of 10; 0 for ops without a magnitude
};
using PolicyPair = std::array<PolicyStep, 2>;

// The 25 pairs of a policy.
std::span<const PolicyPair> policy_pairs(AutoAugmentPolicy policy);

// The ops to apply, one after the other; identity in the place of an op that is skipped.
std::array<AugmentParams, 2> draw_auto_augment(const AutoAugment& op, ImageSize image, Rng& rng);

}  // namespace stoker
