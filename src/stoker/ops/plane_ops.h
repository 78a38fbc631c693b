// The image ops on float32 planes (base/planes.h), with torchvision's results for tensors of the image's own type,
// before it rounds those of whole numbers. A Color counts from 0 to 255, and 255 stands for PlaneValues::top.
#pragma once

#include <array>

#include "stoker/base/planes.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/augment.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/elastic.h"
#include "stoker/ops/gaussian_blur.h"
#include "stoker/ops/perspective.h"
#include "stoker/ops/photometric.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/random_erasing.h"
#include "stoker/ops/resize.h"

namespace stoker {

// The colour's value for channel `c`; channels beyond the colour's four have its last.
float plane_color(const Color& color, int c, const PlaneValues& values);

// Scratch memory of resize_planes, reused from image to image.
struct PlanesResizeScratch {
    ResizeAxis horizontal;
    ResizeAxis vertical;
    std::vector<float> row;  // an output row before the horizontal pass
};

// `from` holds the part `window` of the geometry's source, which contains resize_reads(geometry); `to` has the size of
// the geometry's part. Equal sizes copy.
void resize_planes(ConstPlanesView from, const Box& window, const ResizeGeometry& geometry, const PlaneValues& values,
                   PlanesView to, PlanesResizeScratch& scratch);

// padded_crop (random_crop.h) of planes.
void padded_crop_planes(ConstPlanesView from, const Box& box, PaddingMode mode, const Color& fill,
                        const PlaneValues& values, PlanesView to);

void flip_planes_horizontally(PlanesView image);
void flip_planes_vertically(PlanesView image);

// In place; `copy` holds a copy of the original.
void affine_planes(PlanesView image, const AffineParams& move, Interpolation interpolation, const Fill& fill,
                   const PlaneValues& values, Planes& copy);
void perspective_planes(PlanesView image, const Corners& to, Interpolation interpolation, const Color& fill,
                        const PlaneValues& values, Planes& copy);
void elastic_planes(PlanesView image, const Displacement& by, Interpolation interpolation, const Color& fill,
                    const PlaneValues& values, Planes& copy);
void gaussian_blur_planes(PlanesView image, const BlurParams& params, Planes& copy);

// C = 1 or 3; saturation and hue do not change grey images. Throws DataError for other shapes.
void color_jitter_planes(PlanesView image, const ColorJitterParams& params, const PlaneValues& values);
void grayscale_planes(PlanesView image);
// posterize, solarize and so on. A threshold is from 0 to 255, and 255 stands for `top`. equalize has 256 levels, as
// torchvision's. Sharpness and autocontrast need 1 or 3 channels.
void photometric_planes(PlanesView image, const RandomPhotometric& op, const PlaneValues& values, Planes& copy);
// C = 1 or 3. `copy` holds a copy of the original.
void augment_planes(PlanesView image, const AugmentParams& params, const PlaneValues& values, Planes& copy);
void random_erasing_planes(PlanesView image, const ErasingParams& params, const PlaneValues& values);

// The smallest and the largest finite value of all planes; 0 and 0 if there is none.
std::array<float, 2> value_range(ConstPlanesView image);

// The finite values at these shares (0 to 1) of the sorted values of all planes, between neighbours by linear
// interpolation, as numpy.quantile gives them; 0 and 0 if there is none. `sorted` is scratch memory.
std::array<float, 2> quantiles(ConstPlanesView image, std::array<double, 2> shares, std::vector<float>& sorted);

}  // namespace stoker
