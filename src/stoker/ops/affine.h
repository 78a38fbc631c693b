// Affine transforms: torchvision's affine and rotate on uint8, with an output of the input's size. Positions are
// computed in float32 in torchvision's order, so that ties round alike if torchvision's matrix product rounds the same
// way. The bits are the same on every processor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stoker/base/image.h"

namespace stoker {

enum class Interpolation { nearest, bilinear };

// A colour, one value per channel. Grey images use the first.
using Color = std::array<std::uint8_t, 4>;

// Maps an output position (x, y) to the input position (x', y'), both relative to the image's centre:
// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
using InverseMatrix = std::array<double, 6>;

// The parameters of torchvision's affine, without scale. Angles in degrees, clockwise; `center` is relative to the
// image's centre.
struct AffineParams {
    double angle = 0;
    std::array<double, 2> translate{0, 0};  // x, y in pixels
    std::array<double, 2> shear{0, 0};      // x, y in degrees, between -90 and 90
    std::array<double, 2> center{0, 0};     // x, y in pixels
};
InverseMatrix inverse_matrix(const AffineParams& move);

// The colour outside of the image. Empty means black. With a colour, torchvision blends bilinear edge pixels, which are
// already mixed with black, with the colour by the share of their weights that is outside.
using Fill = std::optional<Color>;

// Transforms `from` to `to`, which have the same shape, C = 1..4, and do not overlap.
// Throws InvalidArgument if the shapes differ or the matrix is not finite.
void affine(ConstImageView from, const InverseMatrix& matrix, Interpolation interpolation, const Fill& fill,
            ImageView to);

}  // namespace stoker
