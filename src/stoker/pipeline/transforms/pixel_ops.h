// The ops that change pixels and keep the image's size. To add one: add its type to PixelOp, a branch to each visitor
// in pixel_ops.cpp, and an entry to op_table.cpp.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/auto_augment.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/custom_op.h"
#include "stoker/ops/elastic.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/gaussian_blur.h"
#include "stoker/ops/grayscale.h"
#include "stoker/ops/perspective.h"
#include "stoker/ops/photometric.h"
#include "stoker/ops/rand_augment.h"
#include "stoker/ops/random_affine.h"
#include "stoker/ops/random_erasing.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/rotation.h"
#include "stoker/ops/timm_rand_augment.h"
#include "stoker/ops/trivial_augment.h"

namespace stoker {

struct OpGroup;

// All of them are random. A HorizontalFlip is one within a group; otherwise it is folded with the geometry.
using PixelOp = std::variant<HorizontalFlip, VerticalFlip, RandomRotation, RandomAffine, RandomPerspective,
                             ElasticTransform, ColorJitter, RandomGrayscale, RandomPhotometric, GaussianBlur,
                             RandomErasing, TrivialAugmentWide, RandAugment, TimmRandAugment, AutoAugment,
                             std::shared_ptr<const CustomOp>, std::shared_ptr<const OpGroup>>;

// torchvision's RandomApply and RandomChoice: one draw decides which of the ops run.
struct OpGroup {
    std::vector<PixelOp> ops;
    std::vector<float> bounds = {};  // random_choice: op i for a draw in [bounds[i - 1], bounds[i]), the last one is 1
    float probability = 1;           // random_apply, without bounds: all ops, one after the other
};

// Visits the ops of a group that run. Each has another stream.
template <typename Visit>
void visit_drawn(const OpGroup& group, Rng& rng, const Visit& visit) {
    const float drawn = rng.uniform();
    const std::uint64_t high = std::uint64_t{rng.next()} << 32;
    const std::uint64_t seed = high | rng.next();
    const auto run = [&](std::size_t i) {
        visit(group.ops[i], Rng({.seed = seed, .op = static_cast<std::uint16_t>(i)}));
    };
    if (!group.bounds.empty()) {
        run(static_cast<std::size_t>(std::ranges::upper_bound(group.bounds, drawn) - group.bounds.begin()));
        return;
    }
    for (std::size_t i = 0; drawn < group.probability && i < group.ops.size(); ++i) {
        run(i);
    }
}

// False if the op, with the parameters that it draws from `rng`, leaves an image of this size unchanged.
bool changes_pixels(const PixelOp& op, ImageSize size, Rng rng);

// Runs the op in place with the same parameters. `scratch` holds a copy of the original where the op needs one.
void run_pixel_op(const PixelOp& op, ImageView image, Rng rng, Image& scratch);

// False for ops that move pixels in ways which masks and boxes do not follow here; torchvision has RandomPerspective
// and ElasticTransform for both.
bool takes_masks_and_boxes(const PixelOp& op);

// Move the masks and boxes of an image as the op moves its pixels with the same parameters: masks by the nearest pixel
// and with 0 outside of the image. Other ops change neither.
void run_on_mask(const PixelOp& op, ImageView mask, Rng rng, Image& scratch);
void run_on_boxes(const PixelOp& op, std::span<float> boxes, ImageSize image, Rng rng);

}  // namespace stoker
