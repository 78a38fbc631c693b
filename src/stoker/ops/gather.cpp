#include "stoker/ops/gather.h"

#include "stoker/ops/flip.h"
#include "stoker/ops/random_erasing.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {
namespace {

// The bytes of one sample.
void write_pixels(const GatherBatch& batch, const GatherDraw& draw, ImageView to, ResizeScratch& scratch) {
    if (draw.image == 0) {
        std::memset(to.data, 0, to.row_bytes() * static_cast<std::size_t>(to.height));
        return;
    }
    const std::ptrdiff_t row = std::ptrdiff_t{batch.from.width} * batch.channels;
    const ConstImageView image{batch.images + (draw.image - 1) * row * batch.from.height, batch.from.height,
                               batch.from.width, batch.channels, row};
    if (batch.ops.resizes) {
        resize(image.crop(draw.box), to, scratch, batch.ops.interpolation);
    } else {
        padded_crop(image, draw.box, batch.ops.mode, batch.ops.fill, to);
    }
    if (draw.flip_horizontal != 0) {
        horizontal_flip(to);
    }
    if (draw.flip_vertical != 0) {
        vertical_flip(to);
    }
    if (!batch.ops.colors) {
        random_erasing(to, {.box = draw.output.erased, .value = batch.ops.erased_value, .noise = draw.output.noise});
    }
}

}  // namespace

bool gather_fits(ImageSize from, ImageSize to, Interpolation interpolation) {
    const std::int64_t weights = std::int64_t{to.height} * resize_stride(from.height, to.height, interpolation) +
                                 std::int64_t{to.width} * resize_stride(from.width, to.width, interpolation);
    return std::int64_t{to.height} + to.width <= kGatherOutputs && weights <= kGatherWeights;
}

void gather(const GatherBatch& batch) {
    const auto [height, width] = batch.to;
    Image pixels(height, width, batch.channels);
    ResizeScratch scratch;
    const std::size_t bytes = pixels.bytes() * item_size(batch.dtype);  // of one sample of `out`
    for (int i = 0; i < batch.n; ++i) {
        write_pixels(batch, batch.draws[i], pixels.view(), scratch);
        auto* const out = static_cast<std::byte*>(batch.out) + static_cast<std::size_t>(i) * bytes;
        resize_normalize(pixels.view(), {0, 0, height, width}, {batch.to, batch.to, {0, 0, height, width}, false},
                         batch.factors, {.data = out, .dtype = batch.dtype, .layout = batch.layout}, scratch);
    }
}

}  // namespace stoker
