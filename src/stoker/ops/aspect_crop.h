// A crop to one of several aspect ratios, for batches of images of one size (data.bucket_by = "image").
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/resize.h"

namespace stoker {

// Cuts an image to the aspect ratio of one of several sizes, the nearest to its own, and resizes it to that size.
struct AspectCrop {
    int size = 512;       // no size has more pixels than size x size
    int step = 64;        // all sides are multiples of it
    float max_ratio = 2;  // of the longer to the shorter side
    bool random = true;   // the place of the largest box of the ratio; false: the centre
    Interpolation interpolation = Interpolation::bilinear;
};

// For each width the largest height, and the other way round; the narrowest first, no ratio twice. The square is among
// them. Throws InvalidArgument for wrong parameters.
std::vector<ImageSize> aspect_sizes(const AspectCrop& op);

// The number of the size for an image: that whose ratio is nearest, as a quotient.
std::size_t nearest_aspect(const std::vector<ImageSize>& sizes, ImageSize image);

// The largest box of the ratio `to`.
Box draw_aspect_crop(const AspectCrop& op, ImageSize image, ImageSize to, Rng& rng);

}  // namespace stoker
