// torchvision's perspective and RandomPerspective on uint8: the size does not change.
#pragma once

#include <array>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/resize.h"

namespace stoker {

// The new places of an image's corners: top left, top right, bottom right, bottom left; (x, y) in pixels.
using Corners = std::array<std::array<double, 2>, 4>;

struct RandomPerspective {
    float distortion = 0.5f;  // 0 to 1: the largest shift of a corner, as a share of half the image
    Interpolation interpolation = Interpolation::bilinear;
    Color fill{};
    float probability = 0.5f;
};

// Returns the corners of the image itself where it does not apply. Throws InvalidArgument.
Corners draw_random_perspective(const RandomPerspective& op, ImageSize image, Rng& rng);
Corners corners_of(ImageSize image);

// The coefficients a to h of the map from output to input positions: x' = (a x + b y + c) / (g x + h y + 1),
// y' = (d x + e y + f) / (g x + h y + 1). They move the image's corners to `to`; the identity where these do not span
// an area.
std::array<double, 8> perspective_coefficients(ImageSize image, const Corners& to);

// In place, C = 1..4. `scratch` holds a copy of the original.
void perspective(ImageView image, const Corners& to, Interpolation interpolation, const Fill& fill, Image& scratch);

}  // namespace stoker
