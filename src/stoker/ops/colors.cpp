#include "stoker/ops/colors.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/ops/color_pixel.h"
#include "stoker/ops/random_erasing.h"

namespace stoker {
namespace {

void run_step(ImageView image, ColorStep step, float factor) {
    const ColorKernels& kernels = color_kernels().back();
    ColorStage stage{.step = step, .factor = factor, .rest = color_pixel::rest_of(factor)};
    if (step == ColorStep::contrast) {
        stage.mean = run_color_to_mean(kernels, image, {});
    }
    run_color(kernels, image, {&stage, 1});
}

}  // namespace

void require_colors(const ColorsBatch& batch) {
    const auto& [height, width] = batch.size;
    if (batch.n < 0 || height <= 0 || width <= 0 || std::int64_t{height} * width > kMostColorPixels ||
        (batch.channels != 1 && batch.channels != 3)) {
        throw InvalidArgument(
            {.where = "colors",
             .expected = fmt::format("images of 1 or 3 channels, at most {} pixels", kMostColorPixels),
             .got = fmt::format("{} images of {} x {} x {}", batch.n, height, width, batch.channels)});
    }
}

void colors(const ColorsBatch& batch) {
    require_colors(batch);
    const std::ptrdiff_t row = std::ptrdiff_t{batch.size.width} * batch.channels;
    const auto* const first = reinterpret_cast<const std::byte*>(batch.draws);
    for (int i = 0; i < batch.n; ++i) {
        const auto& draw = *reinterpret_cast<const OutputDraw*>(first + static_cast<std::size_t>(i) * batch.stride);
        const ImageView image{batch.images + i * row * batch.size.height, batch.size.height, batch.size.width,
                              batch.channels, row};
        for (int step = 0; step < draw.steps; ++step) {
            run_step(image, draw.step[step], draw.factor[step]);
        }
        random_erasing(image, {.box = draw.erased, .value = batch.erased_value, .noise = draw.noise});
    }
}

}  // namespace stoker
