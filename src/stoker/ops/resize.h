// Bilinear resize with antialiasing, as torchvision and Pillow do it on uint8: separable triangle
// filter widened by the scale, horizontal pass first, rounded to uint8 after each pass. The bits are
// Pillow's; only where Pillow 13 takes the vertical pass first (the height shrinks more) a value may
// differ by 1.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"

namespace stoker {

struct ImageSize {
    int height = 0;
    int width = 0;
    bool operator==(const ImageSize&) const = default;
};

// torchvision's Resize(size): the shorter side becomes `size`, the longer int(size * long / short).
ImageSize resized_size(int image_height, int image_width, int size);

// The taps of one output position: inputs first ... first + count - 1.
struct ResizeTaps {
    int first = 0;
    int count = 0;
};

// The filter along one axis, in fixed point of kResizeBits: `taps[i]` says where output i reads,
// `weights[i * stride + k]` is its k-th weight; each output's weights sum to about 1 << kResizeBits.
// Neither `first` nor `first + count` ever falls from one output to the next.
inline constexpr int kResizeBits = 22;
struct ResizeAxis {
    int stride = 0;
    std::vector<ResizeTaps> taps;
    std::vector<std::int32_t> weights;

    // Outputs begin ... begin + count - 1 of `output`. Reuses its memory; does nothing where the
    // arguments are those of last time.
    void build(int input, int output, int begin, int count);
    // Inputs from the first tap of all to the last.
    int inputs() const { return taps.back().first + taps.back().count - taps.front().first; }

  private:
    int input_ = -1;
    int output_ = -1;
    int begin_ = -1;
    std::vector<double> triangle_;  // one output's weights before they are normalised
};

// Memory kept from image to image by one worker.
struct ResizeScratch {
    ResizeAxis horizontal;
    ResizeAxis vertical;
    Buffer columns;  // a few input rows turned on their side: (input columns, C, rows)
    Buffer turned;   // the same after the horizontal pass: (output columns, C, rows)
    Image rows;      // a ring of rows after the horizontal pass: (rows, output width, C)
    std::vector<const std::uint8_t*> row_taps;
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
