// Quantised coefficients to RGB rows: inverse DCT, chroma upsampling and colour conversion. Decodes only the blocks
// that a region needs, a few rows at a time, so that the data stays in the cache. The pixels equal libjpeg-turbo's.
#pragma once

#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/codecs/jpeg/block_kernels.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"
#include "stoker/codecs/jpeg/plane_plan.h"

namespace stoker {

// Use one per thread; it reuses its memory from image to image.
class BlockDecoder {
  public:
    explicit BlockDecoder(const BlockKernels& kernels = best_block_kernels()) : kernels_(kernels) {}

    // Writes the region into the sink: start and row, not finish. Requires frame.has_integer_ratios(). With a shrink,
    // each block becomes (8 / shrink) x (8 / shrink) samples.
    void decode(const JpegFrame& frame, BlockRows& blocks, const Region& region, RowSink& sink);

  private:
    // The decoded samples of one component: a ring of the latest rows.
    struct Plane : PlanePlan {
        int ring_rows = 0;
        int done = 0;  // rows before `done` are decoded
        std::ptrdiff_t stride = 0;
        Buffer samples;                  // (ring_rows, stride) uint8; sample row y is at y % ring_rows
        std::vector<std::uint8_t> line;  // one row at the image's width

        std::uint8_t* row(int y);  // at column side * first_block
        std::uint8_t* sample(int y, int x) { return row(y) + (x - side * first_block); }
    };

    static void plan(const JpegFrame& frame, int c, const Box& box, int shrink, Plane& plane);
    void decode_rows(const JpegFrame& frame, int c, int block_row, BlockRows& blocks);
    bool ready(const JpegFrame& frame, int y) const;
    const std::uint8_t* image_row(Plane& plane, int y, const Box& box);
    void write_row(const JpegFrame& frame, int y, const Box& box, std::uint8_t* out);

    const BlockKernels& kernels_;
    Plane planes_[3];
};

}  // namespace stoker
