// Colour steps, then erased boxes, on a batch of images of bytes in place: what follows gather and assemble if a
// recipe changes colours. The parameters are drawn on the host; here is the slow reference of colors_cuda.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stoker/base/image.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/output_draw.h"
#include "stoker/ops/resize.h"

namespace stoker {

struct ColorsBatch {
    const OutputDraw* draws = nullptr;        // the first of n; they lie within other draws
    std::size_t stride = sizeof(OutputDraw);  // bytes from one to the next
    int n = 0;
    ImageSize size{};                            // at most kMostColorPixels
    int channels = 3;                            // 1 or 3
    std::optional<Color> erased_value{Color{}};  // empty: random bytes
    std::uint8_t* images = nullptr;              // (n, size.height, size.width, channels)
};

// The sum of the grays of an image fits in 32 bits.
inline constexpr std::int64_t kMostColorPixels = std::int64_t{1} << 24;

// Throws InvalidArgument for a batch that the kernel cannot do.
void require_colors(const ColorsBatch& batch);

// In host memory, by the ops one after the other; of images with one channel as color_jitter and grayscale do. Throws
// what require_colors throws.
void colors(const ColorsBatch& batch);

}  // namespace stoker
