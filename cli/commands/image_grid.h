// A grid of images in one image, like torchvision.utils.make_grid.
#pragma once

#include <vector>

#include "stoker/base/image.h"

namespace stoker::cli {

// Converts 1 to 4 channels to RGB: grey is repeated, alpha is dropped.
void to_rgb(ConstImageView image, Image& rgb);

struct ImageGrid {
    Image image;  // RGB
    int columns = 0;
};

// Arranges RGB images in rows of equal cells, each centred in its cell. Small images are enlarged by an integer factor
// without smoothing; large ones are reduced to fit.
ImageGrid make_grid(const std::vector<Image>& images);

}  // namespace stoker::cli
