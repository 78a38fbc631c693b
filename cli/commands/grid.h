// Pictures for people: many samples side by side in one image.
#pragma once

#include <vector>

#include "stoker/base/image.h"

namespace stoker::cli {

// Any 1 to 4 channels as RGB: grey is repeated, alpha is dropped.
void to_rgb(ConstImageView image, Image& rgb);

// RGB images in rows, each centred in a cell of one size. Small ones grow by a whole factor, without
// smoothing; large ones shrink to fit.
struct Grid {
    Image image;
    int columns = 0;
};
Grid draw_grid(const std::vector<Image>& images);

}  // namespace stoker::cli
