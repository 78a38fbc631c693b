// Draws the rectangle as torchvision does and fills it. Each row of noise has its own random stream, so that no
// rectangle exhausts a stream.
#include "stoker/ops/random_erasing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stoker/base/error.h"

namespace stoker {
namespace {

void check(const RandomErasing& op, int height, int width) {
    const bool ranges = op.scale_low >= 0 && op.scale_low <= op.scale_high && op.scale_high <= 1 && op.ratio_low > 0 &&
                        op.ratio_low <= op.ratio_high && std::isfinite(op.ratio_high);
    if (!ranges || height < 1 || width < 1) {
        throw InvalidArgument({.where = "random_erasing",
                               .expected = "scale 0 <= low <= high <= 1, ratio 0 < low <= high, an image",
                               .got = fmt::format("scale {} to {}, ratio {} to {}, {} x {}", op.scale_low,
                                                  op.scale_high, op.ratio_low, op.ratio_high, height, width)});
    }
}

void fill_row(std::uint8_t* row, std::size_t pixels, std::size_t channels, const Color& color) {
    for (std::size_t i = 0; i < pixels; ++i) {
        std::copy_n(color.data(), channels, row + i * channels);
    }
}

void fill_noise(std::uint8_t* row, std::size_t bytes, Rng rng) {
    for (std::size_t i = 0; i < bytes; i += 4) {
        const std::uint32_t word = rng.next();
        for (std::size_t k = 0; k < 4 && i + k < bytes; ++k) {
            row[i + k] = static_cast<std::uint8_t>(word >> (8 * k));
        }
    }
}

}  // namespace

ErasingParams draw_random_erasing(const RandomErasing& op, int image_height, int image_width, Rng& rng) {
    check(op, image_height, image_width);
    ErasingParams params{.value = op.value};
    if (!rng.chance(op.probability)) {
        return params;
    }
    const double area = static_cast<double>(image_height) * image_width;
    const double log_low = std::log(static_cast<double>(op.ratio_low));
    const double log_high = std::log(static_cast<double>(op.ratio_high));
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double target = area * static_cast<double>(rng.uniform(op.scale_low, op.scale_high));
        const double ratio = std::exp(log_low + (log_high - log_low) * static_cast<double>(rng.uniform()));
        const double height = std::nearbyint(std::sqrt(target * ratio));
        const double width = std::nearbyint(std::sqrt(target / ratio));
        if (height >= image_height || width >= image_width) {
            continue;
        }
        params.box.height = static_cast<int>(height);
        params.box.width = static_cast<int>(width);
        params.box.top = static_cast<int>(rng.below(static_cast<std::uint32_t>(image_height - params.box.height + 1)));
        params.box.left = static_cast<int>(rng.below(static_cast<std::uint32_t>(image_width - params.box.width + 1)));
        params.noise = std::uint64_t{rng.next()} << 32;
        params.noise |= rng.next();
        break;
    }
    return params;
}

void random_erasing(ImageView image, const ErasingParams& params) {
    const Box& box = params.box;
    if (box.top < 0 || box.left < 0 || box.height < 0 || box.width < 0 || box.height > image.height - box.top ||
        box.width > image.width - box.left || image.channels < 1 || image.channels > 4) {
        throw InvalidArgument(
            {.where = "random_erasing",
             .expected = fmt::format("a box within {} x {} pixels of 1 to 4 channels", image.height, image.width),
             .got = fmt::format("{} x {} at ({}, {}) of {} channels", box.height, box.width, box.top, box.left,
                                image.channels)});
    }
    const ImageView part = image.crop(box);
    for (int y = 0; y < part.height; ++y) {
        if (params.value && y > 0) {
            std::copy_n(part.row(0), part.row_bytes(), part.row(y));
        } else if (params.value) {
            fill_row(part.row(0), static_cast<std::size_t>(part.width), static_cast<std::size_t>(part.channels),
                     *params.value);
        } else {
            fill_noise(part.row(y), part.row_bytes(),
                       Rng({.seed = params.noise, .sample = static_cast<std::uint64_t>(y)}));
        }
    }
}

}  // namespace stoker
