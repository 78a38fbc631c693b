#include "stoker/ops/assemble.h"

#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/flip.h"
#include "stoker/ops/random_erasing.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {

bool assemble_fits(const ResizeGeometry& resizing) {
    const auto& [source, full, part, flip, interpolation] = resizing;
    const std::int64_t columns = resize_stride(source.width, full.width, interpolation);
    const std::int64_t rows = resize_stride(source.height, full.height, interpolation);
    return on_device(interpolation) && part.width <= kAssembleWidth &&
           part.width * columns + kAssembleBand * rows <= kAssembleWeights;
}

void require_assemble(const AssembleBatch& batch) {
    constexpr int kMostRows = 65535 * kAssembleBand;
    const auto& [height, width] = batch.to;
    if (batch.n < 0 || height <= 0 || height > kMostRows || width <= 0 || width > kAssembleWidth ||
        batch.channels < 1 || batch.channels > 4) {
        throw InvalidArgument(
            {.where = "assemble",
             .expected = fmt::format("images of 1 to 4 channels, at most {} pixels wide", kAssembleWidth),
             .got = fmt::format("{} images of {} x {} x {}", batch.n, height, width, batch.channels)});
    }
}

void assemble(const AssembleBatch& batch) {
    require_assemble(batch);
    const std::ptrdiff_t row = std::ptrdiff_t{batch.to.width} * batch.channels;
    ResizeScratch scratch;
    for (int i = 0; i < batch.n; ++i) {
        const AssembleDraw& draw = batch.draws[i];
        const ImageView to{batch.out + i * row * batch.to.height, batch.to.height, batch.to.width, batch.channels, row};
        if (draw.image == 0) {
            std::memset(to.data, 0, static_cast<std::size_t>(row * batch.to.height));
            continue;
        }
        const ConstImageView window{reinterpret_cast<const std::uint8_t*>(batch.memory + draw.image),
                                    draw.window.height, draw.window.width, batch.channels,
                                    std::ptrdiff_t{draw.window.width} * batch.channels};
        resize_normalize(
            window, draw.window,
            {.source = draw.source,
             .full = draw.full,
             .part = {draw.top, draw.left, batch.to.height, batch.to.width},
             .flip = draw.flip_horizontal != 0,
             .interpolation = draw.interpolation},
            {}, {.data = reinterpret_cast<std::byte*>(to.data), .dtype = DType::uint8, .layout = Layout::hwc}, scratch);
        if (draw.flip_vertical != 0) {
            vertical_flip(to);
        }
        if (!batch.colors) {
            random_erasing(to, {.box = draw.output.erased, .value = batch.erased_value, .noise = draw.output.noise});
        }
    }
}

}  // namespace stoker
