// Decoded rows to a place in a batch slot in one pass: resize, flip, normalise, element type and memory order.
// A row leaves the vertical pass while it is in the nearest cache and is never seen again.
#pragma once

#include <cstddef>

#include "stoker/base/dtype.h"
#include "stoker/base/image.h"
#include "stoker/ops/normalize.h"
#include "stoker/ops/resize.h"

namespace stoker {

// Where pixels go: the elements of one image without gaps, as planes (C, H, W) or interleaved (H, W, C).
struct PixelTarget {
    std::byte* data = nullptr;
    DType dtype = DType::float32;  // or float16, bfloat16; uint8: the pixels as they are, not normalised
    Layout layout = Layout::chw;
    bool streamed = false;  // float32 may be written past the caches: for memory that nobody reads soon
};

// True for the types that PixelTarget may have.
bool is_pixel_dtype(DType dtype);

// `from` (h, w, C), C = 1..4, holds what `window` says of the geometry's source: at least resize_reads(geometry).
// The bits are those of resize, cut, horizontal_flip and normalize one after the other; 16-bit floats are
// rounded to the nearest, halves to even. Throws InvalidArgument where the arguments do not fit together.
void resize_normalize(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                      const NormalizeFactors& factors, const PixelTarget& target, ResizeScratch& scratch);

// The slow, readable twin: those ops, one after the other. The same bits.
void resize_normalize_reference(ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                                const NormalizeFactors& factors, const PixelTarget& target);

}  // namespace stoker
