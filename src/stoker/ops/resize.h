// Bilinear resize with antialiasing, as torchvision and Pillow do it on uint8: separable triangle
// filter widened by the scale, horizontal pass first, rounded to uint8 after each pass. The bits are
// Pillow's; only where Pillow 13 takes the vertical pass first (the height shrinks more) a value may
// differ by 1.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/ops/lane_table.h"
#include "stoker/ops/resize_axis.h"

namespace stoker {

struct ImageSize {
    int height = 0;
    int width = 0;
    bool operator==(const ImageSize&) const = default;
};

// torchvision's Resize(size): the shorter side becomes `size`, the longer int(size * long / short).
ImageSize resized_size(int image_height, int image_width, int size);

// A resize of which a part is wanted: `source` becomes `full`, of which `part` is cut out and mirrored.
struct ResizeGeometry {
    ImageSize source;
    ImageSize full;
    Box part;  // within full
    bool flip = false;
};

// The rows and columns of the source that the part is made from; what lies outside need not be decoded.
Box resize_reads(const ResizeGeometry& geometry);

// Memory kept from image to image by one worker.
struct ResizeScratch {
    ResizeAxis horizontal;
    ResizeAxis vertical;
    Buffer columns;  // a few input rows turned on their side: (input columns, C, rows)
    Buffer turned;   // the same after the horizontal pass: (output columns, C, rows)
    Image rows;      // a ring of rows after the horizontal pass: (rows, output width, C)
    std::vector<const std::uint8_t*> row_taps;
    Image line;     // one output row (W, C)
    Buffer floats;  // the same, normalised
    LaneTable lanes;
    Buffer quads;  // a ring of rows after the horizontal pass, four by four: see kernels_vnni.cpp
    std::vector<const std::byte*> quad_rows;
    std::vector<std::uint32_t> quad_digits;
};

// `from` (h, w, C) to `to` (H, W, C), C = 1..4, any sizes of at least 1. Equal sizes copy.
// Throws InvalidArgument where the shapes do not fit together.
void resize(ConstImageView from, ImageView to, ResizeScratch& scratch);

// The pixels that resizing `from` to `full` and then cutting out `part` would give, for the cost of
// `part` alone: torchvision's Resize and CenterCrop in one. `to` has the size of `part`, which lies within `full`.
void resize_part(ConstImageView from, ImageSize full, const Box& part, ImageView to, ResizeScratch& scratch);

// The slow, readable twin: the same bits.
void resize_reference(ConstImageView from, ImageView to);

}  // namespace stoker
