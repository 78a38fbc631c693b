// grayscale is a stage of the colour kernels. luma works in place, because it reads ahead of its writes.
#include "stoker/ops/grayscale.h"

#include "stoker/ops/color_kernels.h"

namespace stoker {

bool draw_random_grayscale(const RandomGrayscale& op, Rng& rng) {
    return rng.chance(op.probability);
}

void grayscale(ImageView image) {
    check_color_channels("grayscale", image);
    if (image.channels == 3) {
        const ColorStage stage{.step = ColorStep::gray};
        run_color(color_kernels().back(), image, {&stage, 1});
    }
}

ImageView luma(ImageView image) {
    const ImageView out{image.data, image.height, image.width, 1, image.width};
    for (int y = 0; y < image.height; ++y) {
        const std::uint8_t* from = image.row(y);
        std::uint8_t* to = out.row(y);
        for (int x = 0; x < image.width; ++x, from += 3) {
            const unsigned sum = 19595U * from[0] + 38470U * from[1] + 7471U * from[2];  // of 65536
            to[x] = static_cast<std::uint8_t>((sum + 32768U) >> 16);
        }
    }
    return out;
}

}  // namespace stoker
