// From quantised coefficients to RGB rows, for any region of an image: inverse DCT, chroma upsampling, colour,
// only over the blocks that the region needs, a few rows at a time so that everything stays in the cache.
// Bit for bit what libjpeg-turbo makes of the same coefficients.
#pragma once

#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/codecs/jpeg/block_kernels.h"
#include "stoker/codecs/jpeg/frame.h"

namespace stoker {

// One worker's: keeps its memory from image to image.
class BlockPixels {
  public:
    explicit BlockPixels(const BlockKernels& kernels = best_block_kernels()) : kernels_(kernels) {}

    // Draws the region of the frame into the sink: start, row by row, not finish. The frame has whole ratios. At
    // 1/shrink of the size, each block becomes (8 / shrink) x (8 / shrink) samples.
    void draw(const Frame& frame, BlockRows& blocks, const Region& region, RowSink& sink);

  private:
    // The samples of one component around the rows at work.
    struct Plane {
        int side = kBlockSide;  // samples that a block becomes, in either direction
        int width = 0;          // samples of the whole component at this size
        int height = 0;
        int scale_h = 1;  // image pixels a sample
        int scale_v = 1;
        bool smooth_h = false;
        bool smooth_v = false;
        int first_row = 0;  // samples that the box needs
        int last_row = 0;
        int first_block = 0;  // block columns that they lie in
        int blocks = 0;
        int ring_rows = 0;
        int done = 0;  // rows [.., done) were made
        std::ptrdiff_t stride = 0;
        Buffer samples;                  // (ring_rows, stride) uint8: sample row y lies at y % ring_rows
        std::vector<std::uint8_t> line;  // one row at the image's width

        std::uint8_t* row(int y);  // at column side * first_block
        std::uint8_t* sample(int y, int x) { return row(y) + (x - side * first_block); }
    };

    static void plan(const Frame& frame, const FrameComponent& component, const Box& box, int shrink, Plane& plane);
    void make_rows(const Frame& frame, int c, int block_row, BlockRows& blocks);
    bool ready(const Frame& frame, int y) const;
    const std::uint8_t* image_row(Plane& plane, int y, const Box& box);
    void write_row(const Frame& frame, int y, const Box& box, std::uint8_t* out);

    const BlockKernels& kernels_;
    Plane planes_[3];
};

}  // namespace stoker
