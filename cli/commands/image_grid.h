// A grid of images in one image, like torchvision.utils.make_grid.
#pragma once

#include <string>
#include <vector>

#include "stoker/base/image.h"

namespace stoker::cli {

// Converts 1 to 4 channels to RGB: grey is repeated, alpha is dropped.
void to_rgb(ConstImageView image, Image& rgb);

struct GridImage {
    Image image;  // RGB; without pixels if the sample could not be read
    std::string label;
    std::vector<float> boxes;  // (K, 4): x1 y1 x2 y2 in pixels of the image
};

struct ImageGrid {
    Image image;  // RGB
    int columns = 0;
};

// Arranges images in rows of equal cells, each centred in its cell with its label below. Small images are enlarged by
// an integer factor without smoothing; large ones are reduced to fit. An image without pixels is a red cell with a
// cross. Boxes are outlines over the scaled image; a box without an area is not drawn. Labels that are too wide are
// cut; if all labels are empty, cells have no space for them.
ImageGrid make_grid(const std::vector<GridImage>& images);

}  // namespace stoker::cli
