// Both visitors draw the same parameters, each from its own copy of the random stream.
#include "stoker/pipeline/transforms/pixel_ops.h"

namespace stoker {
namespace {

struct Changes {
    ImageSize size;
    Rng& rng;

    bool operator()(const VerticalFlip& op) const { return draw_vertical_flip(op, rng); }
    bool operator()(const RandomRotation& op) const { return draw_random_rotation(op, rng) != 0; }
    bool operator()(const ColorJitter& op) const {
        const ColorJitterParams params = draw_color_jitter(op, rng);
        return params.brightness != 1 || params.contrast != 1 || params.saturation != 1 || params.hue != 0;
    }
    bool operator()(const RandomGrayscale& op) const { return draw_random_grayscale(op, rng); }
    bool operator()(const RandomErasing& op) const {
        return draw_random_erasing(op, size.height, size.width, rng).box.height > 0;
    }
    bool operator()(const TrivialAugmentWide& op) const {
        return draw_trivial_augment(op, rng).op != TrivialOp::identity;
    }
};

struct Run {
    ImageView image;
    Rng& rng;
    Image& scratch;

    void operator()(const VerticalFlip& op) const {
        if (draw_vertical_flip(op, rng)) {
            vertical_flip(image);
        }
    }
    void operator()(const RandomRotation& op) const {
        const double degrees = draw_random_rotation(op, rng);
        rotate(image, degrees, op.interpolation, {op.fill}, scratch);
    }
    void operator()(const ColorJitter& op) const { color_jitter(image, draw_color_jitter(op, rng)); }
    void operator()(const RandomGrayscale& op) const {
        if (draw_random_grayscale(op, rng)) {
            grayscale(image);
        }
    }
    void operator()(const RandomErasing& op) const {
        random_erasing(image, draw_random_erasing(op, image.height, image.width, rng));
    }
    void operator()(const TrivialAugmentWide& op) const {
        trivial_augment(image, draw_trivial_augment(op, rng), scratch);
    }
};

}  // namespace

bool changes_pixels(const PixelOp& op, ImageSize size, Rng rng) {
    return std::visit(Changes{size, rng}, op);
}

void run_pixel_op(const PixelOp& op, ImageView image, Rng rng, Image& scratch) {
    std::visit(Run{image, rng, scratch}, op);
}

}  // namespace stoker
