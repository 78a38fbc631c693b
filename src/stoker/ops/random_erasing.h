// torchvision's RandomErasing, on uint8 pixels before normalize: a random rectangle gets a colour or noise.
// Where torchvision erases after normalising, its value 0 is the mean colour, here written as such.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"

namespace stoker {

struct RandomErasing {
    float probability = 0.5f;
    float scale_low = 0.02f;  // share of the image's area
    float scale_high = 0.33f;
    float ratio_low = 0.3f;  // height / width
    float ratio_high = 3.3f;
    std::optional<Color> value = Color{};  // nothing: every byte is random
};

struct ErasingParams {
    Box box{};  // of height 0: nothing is erased
    std::optional<Color> value{};
    std::uint64_t noise = 0;  // the seed of random bytes
};

// torchvision's get_params: ten tries at a random area and log-uniform ratio, then none.
ErasingParams draw_random_erasing(const RandomErasing& op, int image_height, int image_width, Rng& rng);

// In place, C = 1..4. Throws InvalidArgument where the box does not lie within the image.
void random_erasing(ImageView image, const ErasingParams& params);

}  // namespace stoker
