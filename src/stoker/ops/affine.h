// Affine transforms: torchvision's affine and rotate on uint8, with an output of the input's size. Positions are
// computed in float32 in torchvision's order, so that ties round alike if torchvision's matrix product rounds the same
// way. The bits are the same on every processor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stoker/base/image.h"
#include "stoker/ops/interpolation.h"

namespace stoker {

// A colour, one value per channel. Grey images use the first.
using Color = std::array<std::uint8_t, 4>;

// Maps a position (x, y) to x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5], in pixels.
using AffineMatrix = std::array<double, 6>;

// The parameters of torchvision's affine. Angles in degrees, clockwise.
struct AffineParams {
    double angle = 0;
    std::array<double, 2> translate{0, 0};  // x, y in pixels
    double scale = 1;                       // above 0
    std::array<double, 2> shear{0, 0};      // x, y in degrees, between -90 and 90
    std::array<double, 2> center{0, 0};     // x, y in pixels, from the origin of the positions
};

// From input to output positions, and back. Pixels use the second, with the image's centre as origin.
AffineMatrix forward_matrix(const AffineParams& move);
AffineMatrix inverse_matrix(const AffineParams& move);

// The colour outside of the image. Empty means black. With a colour, torchvision blends bilinear edge pixels, which are
// already mixed with black, with the colour by the share of their weights that is outside.
using Fill = std::optional<Color>;

// Transforms `from` to `to`, which have the same shape, C = 1..4, and do not overlap.
// Throws InvalidArgument if the shapes differ or the matrix is not finite.
void affine(ConstImageView from, const AffineMatrix& inverse, Interpolation interpolation, const Fill& fill,
            ImageView to);

// The same in place, about the image's centre. `scratch` holds a copy of the original.
void affine(ImageView image, const AffineParams& move, Interpolation interpolation, const Fill& fill, Image& scratch);

}  // namespace stoker
