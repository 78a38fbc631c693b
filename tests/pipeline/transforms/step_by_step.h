// The transform's reference: one op after the other, each on all pixels in its own memory.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/normalize_reference.h"
#include "stoker/base/float16.h"
#include "stoker/ops/kernels.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker::testing {

inline Image copy_of(ConstImageView view) {
    Image image(view.height, view.width, view.channels);
    copy_pixels(view, image.view());
    return image;
}

inline Image resized(ConstImageView from, ImageSize size, Interpolation interpolation) {
    Image to(size.height, size.width, from.channels);
    ResizeScratch scratch;
    resize_with(kPlainKernels, from, size, {0, 0, size.height, size.width}, to.view(), scratch, interpolation);
    return to;
}

struct Step {
    ConstImageView image;
    Rng& rng;

    Image operator()(const Resize& op) const {
        return resized(image, op.size ? *op.size : resized_size(image.height, image.width, op.shorter),
                       op.interpolation);
    }
    Image operator()(const CenterCrop& op) const {
        Image to(op.height, op.width, image.channels);
        padded_crop(image, center_crop_box(image.height, image.width, op.height, op.width), PaddingMode::constant, {},
                    to.view());
        return to;
    }
    Image operator()(const RandomResizedCrop& op) const {
        const Box box = draw_random_resized_crop(op, image.height, image.width, rng);
        return resized(image.crop(box), {op.height, op.width}, draw_interpolation(op, rng));
    }
    Image operator()(const AspectCropOp& op) const {
        const ImageSize size{image.height, image.width};
        const ImageSize to = op.size_for(size, {});
        return resized(image.crop(draw_aspect_crop(op.crop, size, to, rng)), to, op.crop.interpolation);
    }
    Image operator()(const HorizontalFlip& op) const {
        Image to = copy_of(image);
        if (draw_horizontal_flip(op, rng)) {
            horizontal_flip(to.view());
        }
        return to;
    }
    Image operator()(const RandomCrop& op) const {
        const Box box = draw_random_crop(op, image.height, image.width, rng);
        Image to(box.height, box.width, image.channels);
        padded_crop(image, box, op.mode, op.fill, to.view());
        return to;
    }
    Image operator()(const PixelOp& op) const {
        Image scratch;
        Image to = copy_of(image);
        run_pixel_op(op, to.view(), rng, scratch);
        return to;
    }
    Image operator()(const Normalize& /*op*/) const { return copy_of(image); }
    Image operator()(const ToFloat& /*op*/) const { return copy_of(image); }
    Image operator()(const SoundOp& /*op*/) const { return copy_of(image); }
};

inline Image step_by_step(ConstImageView from, const std::vector<Op>& ops, RngKey key) {
    Image image = copy_of(from);
    for (std::size_t i = 0; i < ops.size(); ++i) {
        key.op = static_cast<std::uint16_t>(i);
        Rng rng(key);
        image = std::visit(Step{image.view(), rng}, ops[i]);
    }
    return image;
}

// Pixels as a batch holds them.
inline std::vector<std::byte> stored(ConstImageView image, const Normalize& op, DType dtype, Layout layout) {
    const std::size_t count = image.row_bytes() * static_cast<std::size_t>(image.height);
    std::vector<float> floats(count);
    normalize_with(kPlainKernels, image, op, layout, floats.data());
    std::vector<std::byte> out(count * item_size(dtype));
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* to = out.data() + i * item_size(dtype);
        if (dtype == DType::float32) {
            std::memcpy(to, &floats[i], sizeof(float));
        } else if (dtype != DType::uint8) {
            const std::uint16_t half = dtype == DType::bfloat16 ? to_bfloat16(floats[i]) : to_float16(floats[i]);
            std::memcpy(to, &half, sizeof(half));
        }
    }
    for (int y = 0; y < image.height && dtype == DType::uint8; ++y) {
        for (int x = 0; x < image.width; ++x) {
            for (int c = 0; c < image.channels; ++c) {
                const int place = layout == Layout::chw ? (c * image.height + y) * image.width + x
                                                        : (y * image.width + x) * image.channels + c;
                out[static_cast<std::size_t>(place)] = std::byte{image.row(y)[x * image.channels + c]};
            }
        }
    }
    return out;
}

}  // namespace stoker::testing
