// torchvision's RandomGrayscale, which keeps three channels, and the conversion of RGB to one channel.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

struct RandomGrayscale {
    float probability = 0.1f;
};

bool draw_random_grayscale(const RandomGrayscale& op, Rng& rng);

// In place, C = 1 or 3: each channel becomes 0.2989 R + 0.587 G + 0.114 B, truncated. Throws DataError for other
// shapes.
void grayscale(ImageView image);

// RGB (H, W, 3) to one channel (H, W, 1) in the same memory, as Pillow's convert("L"). Three equal channels give their
// value.
ImageView luma(ImageView image);

}  // namespace stoker
