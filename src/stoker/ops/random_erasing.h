// torchvision's RandomErasing, but on uint8 pixels before normalize: fills a random rectangle with a colour or noise.
// torchvision often erases after normalize; its value 0 is then the mean colour here.
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
    std::optional<Color> value = Color{};  // empty: random bytes
};

struct ErasingParams {
    Box box{};  // height 0: nothing is erased
    std::optional<Color> value{};
    std::uint64_t noise = 0;  // the seed of the random bytes
};

// torchvision's get_params: ten tries with a random area and log-uniform ratio, else nothing is erased.
// Throws InvalidArgument.
ErasingParams draw_random_erasing(const RandomErasing& op, int image_height, int image_width, Rng& rng);

// In place, C = 1..4. Throws InvalidArgument if the box does not lie within the image.
void random_erasing(ImageView image, const ErasingParams& params);

}  // namespace stoker
