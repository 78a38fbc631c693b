// Ops run one after the other. Folding them, as for images, would gain little: masks have one channel, boxes are few.
#include "stoker/pipeline/transforms/overlay.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/boxes.h"
#include "stoker/ops/nearest.h"

namespace stoker {
namespace {

// The mask as pixels that an op may change.
ImageView copy_of(ConstImageView mask, TransformScratch& scratch) {
    const ImageView copy = next_scratch(scratch, mask.height, mask.width, mask.channels);
    copy_pixels(mask, copy);
    return copy;
}

struct MaskOp {
    ConstImageView mask;
    Rng& rng;
    TransformScratch& scratch;

    ConstImageView operator()(const Resize& op) const { return resized(mask, target_size(op, size())); }
    ConstImageView operator()(const CenterCrop& op) const {
        return cropped(center_crop_box(mask.height, mask.width, op.height, op.width), PaddingMode::constant);
    }
    ConstImageView operator()(const RandomResizedCrop& op) const {
        return resized(mask.crop(draw_random_resized_crop(op, mask.height, mask.width, rng)), {op.height, op.width});
    }
    ConstImageView operator()(const AspectCropOp& op) const {
        const ImageSize to = op.size_for(size(), scratch.batch_size);
        return resized(mask.crop(draw_aspect_crop(op.crop, size(), to, rng)), to);
    }
    ConstImageView operator()(const RandomCrop& op) const {
        return cropped(draw_random_crop(op, mask.height, mask.width, rng), op.mode);
    }
    ConstImageView operator()(const HorizontalFlip& op) const {
        return draw_horizontal_flip(op, rng) ? changed(horizontal_flip) : mask;
    }
    ConstImageView operator()(const PixelOp& op) const {
        return changed([&](ImageView image) { stoker::run_on_mask(op, image, rng, scratch.original); });
    }
    ConstImageView operator()(const Normalize& /*op*/) const { return mask; }
    ConstImageView operator()(const ToFloat& /*op*/) const { return mask; }
    ConstImageView operator()(const SoundOp& /*op*/) const { return mask; }

  private:
    ImageSize size() const { return {mask.height, mask.width}; }
    ConstImageView resized(ConstImageView from, ImageSize to) const {
        const ImageView out = next_scratch(scratch, to.height, to.width, mask.channels);
        resize_nearest(from, out);
        return out;
    }
    ConstImageView cropped(const Box& box, PaddingMode mode) const {
        const ImageView out = next_scratch(scratch, box.height, box.width, mask.channels);
        padded_crop(mask, box, mode, {}, out);
        return out;
    }
    template <typename Change>
    ConstImageView changed(Change change) const {
        const ImageView copy = copy_of(mask, scratch);
        change(copy);
        return copy;
    }
};

// Returns the image's size after the op.
struct BoxesOp {
    std::span<float> boxes;
    ImageSize image;
    Rng& rng;
    const std::optional<ImageSize>& batch_size;

    ImageSize operator()(const Resize& op) const { return resized(image, target_size(op, image)); }
    ImageSize operator()(const CenterCrop& op) const {
        return cropped(center_crop_box(image.height, image.width, op.height, op.width));
    }
    ImageSize operator()(const RandomResizedCrop& op) const {
        const ImageSize crop = cropped(draw_random_resized_crop(op, image.height, image.width, rng));
        return resized(crop, {op.height, op.width});
    }
    ImageSize operator()(const AspectCropOp& op) const {
        const ImageSize to = op.size_for(image, batch_size);
        return resized(cropped(draw_aspect_crop(op.crop, image, to, rng)), to);
    }
    ImageSize operator()(const RandomCrop& op) const {
        random_crop_boxes(boxes, op, draw_random_crop(op, image.height, image.width, rng), image);
        return {op.height, op.width};
    }
    ImageSize operator()(const HorizontalFlip& op) const {
        if (draw_horizontal_flip(op, rng)) {
            horizontal_flip_boxes(boxes, image.width);
        }
        return image;
    }
    ImageSize operator()(const PixelOp& op) const {
        stoker::run_on_boxes(op, boxes, image, rng);
        return image;
    }
    ImageSize operator()(const Normalize& /*op*/) const { return image; }
    ImageSize operator()(const ToFloat& /*op*/) const { return image; }
    ImageSize operator()(const SoundOp& /*op*/) const { return image; }

  private:
    ImageSize resized(ImageSize from, ImageSize to) const {
        resize_boxes(boxes, from, to);
        return to;
    }
    ImageSize cropped(const Box& box) const {
        crop_boxes(boxes, box);
        return {box.height, box.width};
    }
};

}  // namespace

ConstImageView run_on_mask(const OpSlice& slice, RngKey key, ConstImageView mask, TransformScratch& scratch) {
    for (std::size_t at = slice.begin; at < slice.end; ++at) {
        key.op = static_cast<std::uint16_t>(at);
        Rng rng(key);
        mask = std::visit(MaskOp{mask, rng, scratch}, slice.ops[at]);
    }
    return mask;
}

ImageSize run_on_boxes(const OpSlice& slice, RngKey key, ImageSize image, std::span<float> boxes,
                       const std::optional<ImageSize>& batch_size) {
    for (std::size_t at = slice.begin; at < slice.end; ++at) {
        key.op = static_cast<std::uint16_t>(at);
        Rng rng(key);
        image = std::visit(BoxesOp{boxes, image, rng, batch_size}, slice.ops[at]);
    }
    return image;
}

void require_overlay_ops(std::span<const Op> ops, const Field& field) {
    for (const Op& op : ops) {
        const auto* crop = std::get_if<RandomCrop>(&op);
        if (crop != nullptr && crop->mode != PaddingMode::constant && field.kind == FieldKind::boxes) {
            throw InvalidArgument({.where = fmt::format("field {}", field.name),
                                   .expected = "random_crop with padding_mode = \"constant\", as boxes need",
                                   .got = "another padding_mode"});
        }
        const auto* pixel_op = std::get_if<PixelOp>(&op);
        if (std::holds_alternative<SoundOp>(op) || (pixel_op != nullptr && !takes_masks_and_boxes(*pixel_op))) {
            throw InvalidArgument({.where = fmt::format("field {}", field.name),
                                   .expected = "ops that masks and boxes can follow",
                                   .got = "an op that moves the pixels of images alone, such as trivial_augment_wide",
                                   .hint = "use random_rotation, random_affine, flips and crops"});
        }
    }
}

}  // namespace stoker
