// torchvision's RandomCrop: padding, then a window at a random position. The padded image is never built: pixels of the
// window are read from the image itself.
#pragma once

#include <cstdint>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"

namespace stoker {

// Pixels beyond the edge: `fill`, the edge pixel, or the image mirrored without or with the edge repeated.
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
    bool pad_if_needed = false;  // if the padded image is too small, pad both sides by the missing pixels
    PaddingMode mode = PaddingMode::constant;
    Color fill{};
};

// The padding of an image of this size, with what pad_if_needed adds.
Padding padding_for(const RandomCrop& op, int image_height, int image_width);

// The window relative to the unpadded image: it may begin below 0 and end beyond the image.
// Throws InvalidArgument, and DataError if the padded image is smaller than the window.
Box draw_random_crop(const RandomCrop& op, int image_height, int image_width, Rng& rng);

// The pixel of a line of `length` for any `position`; kOutside for the fill.
inline constexpr int kOutside = -1;
int padded_source(int position, int length, PaddingMode mode);

// Copies `box` of `from` (C = 1..4) to `to`, which has the box's size. `mode` defines pixels beyond the edge; mirrored
// images repeat without limit. Throws InvalidArgument.
void padded_crop(ConstImageView from, const Box& box, PaddingMode mode, const Color& fill, ImageView to);

}  // namespace stoker
