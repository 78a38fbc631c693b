// torchvision's RandomGrayscale, where the image keeps its channels, each of them the gray; and colours as one channel.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct RandomGrayscale {
    float probability = 0.1f;
};

bool draw_random_grayscale(const RandomGrayscale& op, Rng& rng);

// In place, C = 1 or 3: 0.2989 R + 0.587 G + 0.114 B, cut off, in all three. Throws InvalidArgument for other shapes.
void grayscale(ImageView image);

// RGB (H, W, 3) as one channel (H, W, 1) in the same memory, as Pillow's convert("L") has it. Gray of three equal
// channels is their value.
ImageView luma(ImageView image);

}  // namespace stoker
