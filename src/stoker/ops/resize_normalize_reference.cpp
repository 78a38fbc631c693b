// The readable twin of resize_normalize: the whole source with zeros outside the window (the taps must not
// reach them), each op by its own twin, one after the other, one value at a time.
#include "stoker/ops/crop.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/narrow.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {
namespace {

void store(std::uint8_t pixel, float scale, float bias, DType dtype, std::byte* out) {
    const float value = static_cast<float>(pixel) * scale + bias;
    if (dtype == DType::uint8) {
        *reinterpret_cast<std::uint8_t*>(out) = pixel;
    } else if (dtype == DType::float32) {
        *reinterpret_cast<float*>(out) = value;
    } else {
        *reinterpret_cast<std::uint16_t*>(out) = dtype == DType::bfloat16 ? to_bfloat16(value) : to_float16(value);
    }
}

}  // namespace

void resize_normalize_reference(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                                const NormalizeFactors& factors, const PixelTarget& target) {
    const auto& [source, full, part, flip] = geometry;
    Image whole(source.height, source.width, from.channels);
    crop_padded(from, {-window.top, -window.left, source.height, source.width}, whole.view());
    Image resized(full.height, full.width, from.channels);
    resize_reference(whole.view(), resized.view());
    Image cut(part.height, part.width, from.channels);
    copy_pixels(resized.view().crop(part), cut.view());
    if (flip) {
        horizontal_flip(cut.view());
    }
    for (int y = 0; y < part.height; ++y) {
        for (int x = 0; x < part.width; ++x) {
            for (int c = 0; c < from.channels; ++c) {
                const auto channel = static_cast<std::size_t>(c);
                const std::ptrdiff_t place = target.layout == Layout::chw
                                                 ? (std::ptrdiff_t{c} * part.height + y) * part.width + x
                                                 : (std::ptrdiff_t{y} * part.width + x) * from.channels + c;
                store(cut.view().row(y)[x * from.channels + c], factors.scale[channel], factors.bias[channel],
                      target.dtype, target.data + place * static_cast<std::ptrdiff_t>(item_size(target.dtype)));
            }
        }
    }
}

}  // namespace stoker
