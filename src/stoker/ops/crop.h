// torchvision's CenterCrop and RandomResizedCrop. A box depends only on the image's size, so it can be drawn before
// anything is decoded.
#pragma once

#include <optional>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/interpolation.h"

namespace stoker {

// torchvision's CenterCrop: offsets round half to even. If `height` or `width` exceeds the image, the box begins at a
// negative offset, and `padded_crop` (random_crop.h) fills the outside. Throws InvalidArgument.
Box center_crop_box(int image_height, int image_width, int height, int width);

struct RandomResizedCrop {
    int height = 224;
    int width = 224;
    float scale_low = 0.08f;  // share of the image's area
    float scale_high = 1.0f;
    float ratio_low = 3.0f / 4.0f;  // width / height
    float ratio_high = 4.0f / 3.0f;
    std::optional<Interpolation> interpolation = Interpolation::bilinear;  // empty: timm's "random"
};

// torchvision's RandomResizedCrop.get_params: ten tries with a random area and log-uniform ratio, then the largest
// centred box of an allowed ratio. Throws InvalidArgument.
Box draw_random_resized_crop(const RandomResizedCrop& op, int image_height, int image_width, Rng& rng);

// Drawn after the box. timm's "random" is bilinear or bicubic.
Interpolation draw_interpolation(const RandomResizedCrop& op, Rng& rng);

}  // namespace stoker
