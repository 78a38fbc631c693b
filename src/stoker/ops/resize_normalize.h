// Decoded rows to a sample of a batch in one pass: resize, crop, flip, normalize, element type and layout. Each row is
// finished while it is in the first-level cache.
#pragma once

#include <cstddef>

#include "stoker/base/dtype.h"
#include "stoker/base/image.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/resize.h"

namespace stoker {

// The output: one contiguous image, planes (C, H, W) or interleaved (H, W, C).
struct PixelTarget {
    std::byte* data = nullptr;
    DType dtype = DType::float32;  // or float16, bfloat16, or uint8, which is not normalised
    Layout layout = Layout::chw;
    bool streamed = false;  // float32 may bypass the caches: for memory that is not read soon
};

// True for the types that PixelTarget supports.
bool is_pixel_dtype(DType dtype);

// `from` (h, w, C), C = 1..4, holds the part `window` of the geometry's source, which contains resize_reads(geometry).
// The bits equal those of separate resize, crop, horizontal_flip and normalize ops; 16-bit floats are rounded to
// nearest, ties to even. Throws InvalidArgument for inconsistent arguments.
void resize_normalize(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                      const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch);

}  // namespace stoker
