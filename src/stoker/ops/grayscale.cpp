// One stage of the colour kernels.
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

}  // namespace stoker
