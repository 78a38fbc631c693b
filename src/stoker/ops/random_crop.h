// torchvision's RandomCrop: padding on each side, then a window at a random place. Padding is never made: a
// box in the padded image is read from the image itself.
#pragma once

#include <cstdint>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"

namespace stoker {

// What a pixel beyond the edge is: `fill`, the edge, or the image mirrored, without or with the edge repeated.
enum class PaddingMode { constant, edge, reflect, symmetric };

struct Padding {
    int left = 0;
    int top = 0;
    int right = 0;
    int bottom = 0;
};

struct RandomCrop {
    int height = 32;
    int width = 32;
    Padding padding{};
    bool pad_if_needed = false;  // where the padded image is too small: on both sides by what is missing
    PaddingMode mode = PaddingMode::constant;
    Color fill{};
};

// The window, measured from the image's own corner: it may begin below 0 and end beyond the image.
// Throws DataError where the padded image is smaller than the window.
Box draw_random_crop(const RandomCrop& op, int image_height, int image_width, Rng& rng);

// Copies `box` of `from` (C = 1..4) to `to` of the box's size; pixels beyond the edge by `mode`. Mirrored
// images repeat, however far the box lies out.
void padded_crop(ConstImageView from, const Box& box, PaddingMode mode, const Color& fill, ImageView to);

}  // namespace stoker
