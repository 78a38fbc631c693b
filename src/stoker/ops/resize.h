// Resize with antialiasing, as torchvision's and Pillow's of uint8 images: a separable filter, widened by the scale;
// horizontal pass first; rounding to uint8 after each pass. The bits are Pillow's, but if the height shrinks more than
// the width, Pillow 13 runs the vertical pass first, and values may differ by 1.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/ops/resize_axis.h"
#include "stoker/ops/shrink_rows.h"
#include "stoker/ops/vnni_filter.h"

namespace stoker {

struct ImageSize {
    int height = 0;
    int width = 0;
    bool operator==(const ImageSize&) const = default;
};

// torchvision's Resize(size): the shorter side becomes `size`, the longer int(size * long / short). Throws
// InvalidArgument, and DataError if the longer side would exceed an int.
ImageSize resized_size(int image_height, int image_width, int size);

// A resize of `source` to `full`, followed by a crop to `part` and, with `flip`, a horizontal flip.
struct ResizeGeometry {
    ImageSize source;
    ImageSize full;
    Box part;  // within full
    bool flip = false;
    Interpolation interpolation = Interpolation::bilinear;
};

// The box of the source that the part depends on. Pixels outside need not be decoded.
Box resize_reads(const ResizeGeometry& geometry);

// Scratch memory. Use one per thread; it is reused from image to image.
struct ResizeScratch {
    ResizeAxis horizontal;
    ResizeAxis vertical;
    Buffer columns;     // kLanes input rows, transposed: (input columns, C, kLanes)
    Buffer transposed;  // the same after the horizontal pass: (output columns, C, kLanes)
    Image rows;         // a ring of rows after the horizontal pass: (rows, output width, C)
    std::vector<const std::uint8_t*> row_taps;
    Image line;     // one output row (W, C)
    Buffer floats;  // the same, normalised
    VnniFilter vnni_filter;
    Buffer quads;  // a ring of quad rows (kernels_vnni.h) after the horizontal pass
    std::vector<const std::byte*> quad_rows;
    std::vector<std::uint32_t> quad_digits;
    ShrinkScratch shrink;
};

// Resizes `from` (h, w, C) to `to` (H, W, C), C = 1..4, all sizes at least 1. Equal sizes copy.
// Throws InvalidArgument for other shapes.
void resize(ConstImageView from, ImageView to, ResizeScratch& scratch,
            Interpolation interpolation = Interpolation::bilinear);

}  // namespace stoker
