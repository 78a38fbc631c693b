// torchvision's GaussianBlur: a separable filter over the image, which is continued by reflection without the edge. On
// uint8 it differs from torchvision by at most 1 level, if the exact value is between two levels. The bits are the
// same on every processor.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

inline constexpr int kMaxBlurKernel = 255;

struct GaussianBlur {
    int width = 3;  // of the kernel, in pixels: odd, at most kMaxBlurKernel
    int height = 3;
    float sigma_low = 0.1f;  // standard deviation in pixels, above 0
    float sigma_high = 2;
    float probability = 1;
};

struct BlurParams {
    int width = 3;
    int height = 3;
    float sigma = 1;
};

BlurParams draw_gaussian_blur(const GaussianBlur& op, Rng& rng);

// In place, C = 1..4. `scratch` holds a padded copy of the original. Throws InvalidArgument, and DataError for an image
// with a side of at most half the kernel, for which reflection ends.
void gaussian_blur(ImageView image, const BlurParams& params, Image& scratch);

// gaussian_blur with a given kernel.
struct BlurKernel;
void gaussian_blur_with(const BlurKernel& kernel, ImageView image, const BlurParams& params, Image& scratch);

}  // namespace stoker
