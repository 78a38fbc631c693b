// All visitors draw the same parameters, each from its own copy of the random stream.
#include "stoker/pipeline/transforms/pixel_ops.h"

#include <algorithm>

#include "stoker/ops/boxes.h"

namespace stoker {
namespace {

struct Changes {
    ImageSize size;
    Rng& rng;

    bool operator()(const HorizontalFlip& op) const { return draw_horizontal_flip(op, rng); }
    bool operator()(const VerticalFlip& op) const { return draw_vertical_flip(op, rng); }
    bool operator()(const RandomRotation& op) const { return draw_random_rotation(op, rng) != 0; }
    bool operator()(const RandomAffine& op) const {
        const AffineMatrix matrix = forward_matrix(draw_random_affine(op, size, rng));
        return matrix != AffineMatrix{1, 0, 0, 0, 1, 0};
    }
    bool operator()(const RandomPerspective& op) const {
        return draw_random_perspective(op, size, rng) != corners_of(size);
    }
    bool operator()(const ElasticTransform& op) const { return op.probability >= 1 || rng.chance(op.probability); }
    bool operator()(const ColorJitter& op) const {
        const ColorJitterParams params = draw_color_jitter(op, rng);
        return params.brightness != 1 || params.contrast != 1 || params.saturation != 1 || params.hue != 0;
    }
    bool operator()(const RandomGrayscale& op) const { return draw_random_grayscale(op, rng); }
    bool operator()(const RandomErasing& op) const {
        return draw_random_erasing(op, size.height, size.width, rng).box.height > 0;
    }
    bool operator()(const RandomPhotometric& op) const { return draw_random_photometric(op, rng); }
    bool operator()(const GaussianBlur& op) const {
        const BlurParams params = draw_gaussian_blur(op, rng);
        return params.width > 1 || params.height > 1;
    }
    bool operator()(const TrivialAugmentWide& op) const { return changes(draw_trivial_augment(op, rng)); }
    bool operator()(const RandAugment& op) const {
        return any_of(op.num_ops, [&] { return draw_rand_augment(op, size, rng); });
    }
    bool operator()(const TimmRandAugment& op) const {
        return any_of(op.num_ops, [&] { return draw_timm_rand_augment(op, size, rng); });
    }
    bool operator()(const AutoAugment& op) const {
        const auto drawn = draw_auto_augment(op, size, rng);
        return changes(drawn[0]) || changes(drawn[1]);
    }

    bool operator()(const std::shared_ptr<const CustomOp>& /*op*/) const { return true; }
    bool operator()(const std::shared_ptr<const OpGroup>& group) const {
        bool any = false;
        visit_drawn(*group, rng, [&](const PixelOp& op, Rng own) { any = any || changes_pixels(op, size, own); });
        return any;
    }

    static bool changes(const AugmentParams& params) { return params.op != AugmentOp::identity; }

    template <typename Draw>
    static bool any_of(int ops, Draw draw) {
        bool any = false;
        for (int i = 0; i < ops && !any; ++i) {
            any = changes(draw());
        }
        return any;
    }
};

struct Run {
    ImageView image;
    Rng& rng;
    Image& scratch;

    void operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            horizontal_flip(image);
        }
    }
    void operator()(const VerticalFlip& op) const {
        if (draw_vertical_flip(op, rng)) {
            vertical_flip(image);
        }
    }
    void operator()(const RandomRotation& op) const {
        const double degrees = draw_random_rotation(op, rng);
        rotate(image, degrees, op.interpolation, {op.fill}, scratch);
    }
    void operator()(const RandomAffine& op) const {
        const AffineParams move = draw_random_affine(op, {image.height, image.width}, rng);
        affine(image, move, op.interpolation, {op.fill}, scratch);
    }
    void operator()(const RandomPerspective& op) const {
        const Corners to = draw_random_perspective(op, {image.height, image.width}, rng);
        perspective(image, to, op.interpolation, {op.fill}, scratch);
    }
    void operator()(const ElasticTransform& op) const {
        elastic(image, draw_elastic(op, {image.height, image.width}, rng), op.interpolation, {op.fill}, scratch);
    }
    void operator()(const ColorJitter& op) const { color_jitter(image, draw_color_jitter(op, rng)); }
    void operator()(const RandomGrayscale& op) const {
        if (draw_random_grayscale(op, rng)) {
            grayscale(image);
        }
    }
    void operator()(const RandomPhotometric& op) const {
        if (draw_random_photometric(op, rng)) {
            photometric(image, op, scratch);
        }
    }
    void operator()(const GaussianBlur& op) const { gaussian_blur(image, draw_gaussian_blur(op, rng), scratch); }
    void operator()(const RandomErasing& op) const {
        random_erasing(image, draw_random_erasing(op, image.height, image.width, rng));
    }
    void operator()(const TrivialAugmentWide& op) const { augment(image, draw_trivial_augment(op, rng), scratch); }
    void operator()(const RandAugment& op) const {
        for (int i = 0; i < op.num_ops; ++i) {
            augment(image, draw_rand_augment(op, {image.height, image.width}, rng), scratch);
        }
    }
    void operator()(const TimmRandAugment& op) const {
        for (int i = 0; i < op.num_ops; ++i) {
            augment(image, draw_timm_rand_augment(op, {image.height, image.width}, rng), scratch);
        }
    }
    void operator()(const AutoAugment& op) const {
        for (const AugmentParams& params : draw_auto_augment(op, {image.height, image.width}, rng)) {
            augment(image, params, scratch);
        }
    }
    void operator()(const std::shared_ptr<const CustomOp>& op) const { op->apply(image, rng); }
    void operator()(const std::shared_ptr<const OpGroup>& group) const {
        visit_drawn(*group, rng, [&](const PixelOp& op, Rng own) { run_pixel_op(op, image, own, scratch); });
    }
};

struct RunOnMask {
    ImageView mask;
    Rng& rng;
    Image& scratch;

    void operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            horizontal_flip(mask);
        }
    }
    void operator()(const VerticalFlip& op) const {
        if (draw_vertical_flip(op, rng)) {
            vertical_flip(mask);
        }
    }
    void operator()(const RandomRotation& op) const {
        rotate(mask, draw_random_rotation(op, rng), Interpolation::nearest, {}, scratch);
    }
    void operator()(const RandomAffine& op) const {
        const AffineParams move = draw_random_affine(op, {mask.height, mask.width}, rng);
        affine(mask, move, Interpolation::nearest, {}, scratch);
    }
    void operator()(const std::shared_ptr<const CustomOp>& op) const { op->apply_to_mask(mask, rng); }
    void operator()(const std::shared_ptr<const OpGroup>& group) const {
        visit_drawn(*group, rng, [&](const PixelOp& op, Rng own) { run_on_mask(op, mask, own, scratch); });
    }
    void operator()(const auto& /*op*/) const {}
};

struct RunOnBoxes {
    std::span<float> boxes;
    ImageSize image;
    Rng& rng;

    void operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            horizontal_flip_boxes(boxes, image.width);
        }
    }
    void operator()(const VerticalFlip& op) const {
        if (draw_vertical_flip(op, rng)) {
            vertical_flip_boxes(boxes, image.height);
        }
    }
    void operator()(const RandomRotation& op) const { rotate_boxes(boxes, draw_random_rotation(op, rng), image); }
    void operator()(const RandomAffine& op) const { affine_boxes(boxes, draw_random_affine(op, image, rng), image); }
    void operator()(const std::shared_ptr<const CustomOp>& op) const { op->apply_to_boxes(boxes, image, rng); }
    void operator()(const std::shared_ptr<const OpGroup>& group) const {
        visit_drawn(*group, rng, [&](const PixelOp& op, Rng own) { run_on_boxes(op, boxes, image, own); });
    }
    void operator()(const auto& /*op*/) const {}
};

}  // namespace

bool changes_pixels(const PixelOp& op, ImageSize size, Rng rng) {
    return std::visit(Changes{size, rng}, op);
}

void run_pixel_op(const PixelOp& op, ImageView image, Rng rng, Image& scratch) {
    std::visit(Run{image, rng, scratch}, op);
}

bool takes_masks_and_boxes(const PixelOp& op) {
    if (const auto* group = std::get_if<std::shared_ptr<const OpGroup>>(&op)) {
        return std::ranges::all_of((*group)->ops, takes_masks_and_boxes);
    }
    return !std::holds_alternative<TrivialAugmentWide>(op) && !std::holds_alternative<RandAugment>(op) &&
           !std::holds_alternative<AutoAugment>(op) && !std::holds_alternative<TimmRandAugment>(op) &&
           !std::holds_alternative<RandomPerspective>(op) && !std::holds_alternative<ElasticTransform>(op);
}

void run_on_mask(const PixelOp& op, ImageView mask, Rng rng, Image& scratch) {
    std::visit(RunOnMask{mask, rng, scratch}, op);
}

void run_on_boxes(const PixelOp& op, std::span<float> boxes, ImageSize image, Rng rng) {
    std::visit(RunOnBoxes{boxes, image, rng}, op);
}

}  // namespace stoker
