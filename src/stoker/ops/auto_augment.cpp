// The policies of Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data" (CVPR 2019), in torchvision's
// order.
#include "stoker/ops/auto_augment.h"

namespace stoker {
namespace {

using enum AugmentOp;

// clang-format off
constexpr PolicyPair kImageNet[] = {
    {{{posterize, 0.4f, 8}, {rotate, 0.6f, 9}}},
    {{{solarize, 0.6f, 5}, {autocontrast, 0.6f, 0}}},
    {{{equalize, 0.8f, 0}, {equalize, 0.6f, 0}}},
    {{{posterize, 0.6f, 7}, {posterize, 0.6f, 6}}},
    {{{equalize, 0.4f, 0}, {solarize, 0.2f, 4}}},
    {{{equalize, 0.4f, 0}, {rotate, 0.8f, 8}}},
    {{{solarize, 0.6f, 3}, {equalize, 0.6f, 0}}},
    {{{posterize, 0.8f, 5}, {equalize, 1.0f, 0}}},
    {{{rotate, 0.2f, 3}, {solarize, 0.6f, 8}}},
    {{{equalize, 0.6f, 0}, {posterize, 0.4f, 6}}},
    {{{rotate, 0.8f, 8}, {color, 0.4f, 0}}},
    {{{rotate, 0.4f, 9}, {equalize, 0.6f, 0}}},
    {{{equalize, 0.0f, 0}, {equalize, 0.8f, 0}}},
    {{{invert, 0.6f, 0}, {equalize, 1.0f, 0}}},
    {{{color, 0.6f, 4}, {contrast, 1.0f, 8}}},
    {{{rotate, 0.8f, 8}, {color, 1.0f, 2}}},
    {{{color, 0.8f, 8}, {solarize, 0.8f, 7}}},
    {{{sharpness, 0.4f, 7}, {invert, 0.6f, 0}}},
    {{{shear_x, 0.6f, 5}, {equalize, 1.0f, 0}}},
    {{{color, 0.4f, 0}, {equalize, 0.6f, 0}}},
    {{{equalize, 0.4f, 0}, {solarize, 0.2f, 4}}},
    {{{solarize, 0.6f, 5}, {autocontrast, 0.6f, 0}}},
    {{{invert, 0.6f, 0}, {equalize, 1.0f, 0}}},
    {{{color, 0.6f, 4}, {contrast, 1.0f, 8}}},
    {{{equalize, 0.8f, 0}, {equalize, 0.6f, 0}}},
};

constexpr PolicyPair kCifar10[] = {
    {{{invert, 0.1f, 0}, {contrast, 0.2f, 6}}},
    {{{rotate, 0.7f, 2}, {translate_x, 0.3f, 9}}},
    {{{sharpness, 0.8f, 1}, {sharpness, 0.9f, 3}}},
    {{{shear_y, 0.5f, 8}, {translate_y, 0.7f, 9}}},
    {{{autocontrast, 0.5f, 0}, {equalize, 0.9f, 0}}},
    {{{shear_y, 0.2f, 7}, {posterize, 0.3f, 7}}},
    {{{color, 0.4f, 3}, {brightness, 0.6f, 7}}},
    {{{sharpness, 0.3f, 9}, {brightness, 0.7f, 9}}},
    {{{equalize, 0.6f, 0}, {equalize, 0.5f, 0}}},
    {{{contrast, 0.6f, 7}, {sharpness, 0.6f, 5}}},
    {{{color, 0.7f, 7}, {translate_x, 0.5f, 8}}},
    {{{equalize, 0.3f, 0}, {autocontrast, 0.4f, 0}}},
    {{{translate_y, 0.4f, 3}, {sharpness, 0.2f, 6}}},
    {{{brightness, 0.9f, 6}, {color, 0.2f, 8}}},
    {{{solarize, 0.5f, 2}, {invert, 0.0f, 0}}},
    {{{equalize, 0.2f, 0}, {autocontrast, 0.6f, 0}}},
    {{{equalize, 0.2f, 0}, {equalize, 0.6f, 0}}},
    {{{color, 0.9f, 9}, {equalize, 0.6f, 0}}},
    {{{autocontrast, 0.8f, 0}, {solarize, 0.2f, 8}}},
    {{{brightness, 0.1f, 3}, {color, 0.7f, 0}}},
    {{{solarize, 0.4f, 5}, {autocontrast, 0.9f, 0}}},
    {{{translate_y, 0.9f, 9}, {translate_y, 0.7f, 9}}},
    {{{autocontrast, 0.9f, 0}, {solarize, 0.8f, 3}}},
    {{{equalize, 0.8f, 0}, {invert, 0.1f, 0}}},
    {{{translate_y, 0.7f, 9}, {autocontrast, 0.9f, 0}}},
};

constexpr PolicyPair kSvhn[] = {
    {{{shear_x, 0.9f, 4}, {invert, 0.2f, 0}}},
    {{{shear_y, 0.9f, 8}, {invert, 0.7f, 0}}},
    {{{equalize, 0.6f, 0}, {solarize, 0.6f, 6}}},
    {{{invert, 0.9f, 0}, {equalize, 0.6f, 0}}},
    {{{equalize, 0.6f, 0}, {rotate, 0.9f, 3}}},
    {{{shear_x, 0.9f, 4}, {autocontrast, 0.8f, 0}}},
    {{{shear_y, 0.9f, 8}, {invert, 0.4f, 0}}},
    {{{shear_y, 0.9f, 5}, {solarize, 0.2f, 6}}},
    {{{invert, 0.9f, 0}, {autocontrast, 0.8f, 0}}},
    {{{equalize, 0.6f, 0}, {rotate, 0.9f, 3}}},
    {{{shear_x, 0.9f, 4}, {solarize, 0.3f, 3}}},
    {{{shear_y, 0.8f, 8}, {invert, 0.7f, 0}}},
    {{{equalize, 0.9f, 0}, {translate_y, 0.6f, 6}}},
    {{{invert, 0.9f, 0}, {equalize, 0.6f, 0}}},
    {{{contrast, 0.3f, 3}, {rotate, 0.8f, 4}}},
    {{{invert, 0.8f, 0}, {translate_y, 0.0f, 2}}},
    {{{shear_y, 0.7f, 6}, {solarize, 0.4f, 8}}},
    {{{invert, 0.6f, 0}, {rotate, 0.8f, 4}}},
    {{{shear_y, 0.3f, 7}, {translate_x, 0.9f, 3}}},
    {{{shear_x, 0.1f, 6}, {invert, 0.6f, 0}}},
    {{{solarize, 0.7f, 2}, {translate_y, 0.6f, 7}}},
    {{{shear_y, 0.8f, 4}, {invert, 0.8f, 0}}},
    {{{shear_x, 0.7f, 9}, {translate_y, 0.8f, 3}}},
    {{{shear_y, 0.8f, 5}, {autocontrast, 0.7f, 0}}},
    {{{shear_x, 0.7f, 2}, {invert, 0.1f, 0}}},
};
// clang-format on

constexpr int kBins = 10;

}  // namespace

std::span<const PolicyPair> policy_pairs(AutoAugmentPolicy policy) {
    switch (policy) {
        case AutoAugmentPolicy::cifar10:
            return kCifar10;
        case AutoAugmentPolicy::svhn:
            return kSvhn;
        default:
            return kImageNet;
    }
}

std::array<AugmentParams, 2> draw_auto_augment(const AutoAugment& op, ImageSize image, Rng& rng) {
    const std::span<const PolicyPair> pairs = policy_pairs(op.policy);
    const PolicyPair& pair = pairs[rng.below(static_cast<std::uint32_t>(pairs.size()))];
    std::array<AugmentParams, 2> drawn;
    for (std::size_t i = 0; i < pair.size(); ++i) {
        drawn[i] = {.interpolation = op.interpolation, .fill = op.fill};
        if (rng.chance(pair[i].probability)) {
            const double magnitude = augment_magnitude(augment_space(image), pair[i].op, pair[i].bin, kBins);
            drawn[i].op = pair[i].op;
            drawn[i].magnitude = draw_sign(pair[i].op, magnitude, rng);
        }
    }
    return drawn;
}

}  // namespace stoker
