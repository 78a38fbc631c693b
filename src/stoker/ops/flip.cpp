// Swaps pixels within rows, or whole rows, from both ends towards the middle.
#include "stoker/ops/flip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stoker/base/error.h"

namespace stoker {
namespace {

template <std::size_t channels>
void mirror(ImageView image) {
    using Pixel = std::array<std::uint8_t, channels>;
    static_assert(sizeof(Pixel) == channels && alignof(Pixel) == 1);
    for (int y = 0; y < image.height; ++y) {
        auto* pixels = reinterpret_cast<Pixel*>(image.row(y));
        std::reverse(pixels, pixels + image.width);
    }
}

}  // namespace

bool draw_horizontal_flip(const HorizontalFlip& op, Rng& rng) {
    return rng.chance(op.probability);
}

bool draw_vertical_flip(const VerticalFlip& op, Rng& rng) {
    return rng.chance(op.probability);
}

void horizontal_flip(ImageView image) {
    switch (image.channels) {
        case 1:
            return mirror<1>(image);
        case 2:
            return mirror<2>(image);
        case 3:
            return mirror<3>(image);
        case 4:
            return mirror<4>(image);
        default:
            throw InvalidArgument({.where = "horizontal_flip",
                                   .expected = "an image of 1 to 4 channels",
                                   .got = fmt::format("{}", image.channels)});
    }
}

void vertical_flip(ImageView image) {
    for (int y = 0; y < image.height / 2; ++y) {
        std::swap_ranges(image.row(y), image.row(y) + image.row_bytes(), image.row(image.height - 1 - y));
    }
}

}  // namespace stoker
