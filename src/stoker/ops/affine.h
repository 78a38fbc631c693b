// Images moved by a matrix: torchvision's affine and rotate on uint8, the output as large as the input.
// Positions are computed in float32 in torchvision's order, so that ties fall as there where its matrix
// product rounds alike; the same bits on every processor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stoker/base/image.h"

namespace stoker {

enum class Interpolation { nearest, bilinear };

// A colour, one value per channel; gray images use the first.
using Color = std::array<std::uint8_t, 4>;

// From an output pixel back to the input, both measured from the image's middle:
// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
using InverseMatrix = std::array<double, 6>;

// What torchvision's affine takes, without its scale. Angles in degrees, clockwise; `center` is measured from
// the image's middle.
struct AffineMove {
    double angle = 0;
    std::array<double, 2> translate{0, 0};  // x, y in pixels
    std::array<double, 2> shear{0, 0};      // x, y in degrees, between -90 and 90
    std::array<double, 2> center{0, 0};     // x, y in pixels
};
InverseMatrix inverse_matrix(const AffineMove& move);

// What lies outside the image. Without a colour it is black, and bilinear edges fade to black as any other
// pixel; with a colour, torchvision blends edges by the share that lies inside, once more.
struct Outside {
    std::optional<Color> fill{};
};

// `from` to `to`, of the same shape, C = 1..4, which do not overlap.
// Throws InvalidArgument where the shapes differ or the matrix is not finite.
void affine(ConstImageView from, const InverseMatrix& matrix, Interpolation interpolation, const Outside& outside,
            ImageView to);

}  // namespace stoker
