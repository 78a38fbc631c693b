// torchvision's elastic and ElasticTransform on uint8: each pixel is moved by a smooth random field.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/resize.h"

namespace stoker {

inline constexpr float kMaxElasticSigma = 100;

struct ElasticTransform {
    std::array<float, 2> alpha{50, 50};  // x, y: how far pixels move
    std::array<float, 2> sigma{5, 5};    // x, y: how smooth the field is, in pixels; 0 to kMaxElasticSigma
    Interpolation interpolation = Interpolation::bilinear;
    Color fill{};
    float probability = 1;
};

// By how much the input position of each pixel is moved, (H, W) row-major, in units of half the image. Empty: not at
// all.
struct Displacement {
    std::vector<float> x;
    std::vector<float> y;
};

// Draws noise from -1 to 1 for each pixel and smooths it with a kernel of 8 * sigma + 1 pixels, reflected at the edges.
// Throws InvalidArgument.
Displacement draw_elastic(const ElasticTransform& op, ImageSize image, Rng& rng);

// In place, C = 1..4. `scratch` holds a copy of the original. Throws InvalidArgument for a field of another size.
void elastic(ImageView image, const Displacement& by, Interpolation interpolation, const Fill& fill, Image& scratch);

}  // namespace stoker
