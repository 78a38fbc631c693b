// How pixels are read between the positions of an image: torchvision's InterpolationMode.
#pragma once

#include <cstdint>

namespace stoker {

// As a resize all but `nearest` are antialiased filters. `bicubic` and `lanczos` have negative weights, so their sums
// may leave 0 to 255 and are clipped. Affine and perspective transforms have the first three.
enum class Interpolation : std::int32_t { nearest, bilinear, bicubic, lanczos };

// The kernels of a GPU have these alone.
constexpr bool on_device(Interpolation interpolation) {
    return interpolation == Interpolation::bilinear || interpolation == Interpolation::bicubic;
}

constexpr bool may_overshoot(Interpolation interpolation) {
    return interpolation == Interpolation::bicubic || interpolation == Interpolation::lanczos;
}

}  // namespace stoker
