// Resizes an image of three channels to a much smaller one, row by row: four rows at a time to a ring of quad rows,
// whose bytes the vertical pass sums. Internal to ops/.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/ops/resize_axis.h"
#include "stoker/ops/shrink_filter.h"
#include "stoker/ops/shrink_kernels.h"

namespace stoker {

struct ResizeGeometry;

// Scratch memory, part of ResizeScratch.
struct ShrinkScratch {
    ShrinkFilter filter;
    Buffer quads;  // the ring
    Buffer last;   // a copy of the last row, with bytes behind it that may be read
    std::vector<const std::uint8_t*> quad_rows;
    std::vector<std::int8_t> digits;  // (quads, kShrinkDigits, kShrinkRows)
};

// True if ShrinkRows is faster than RowResizer's passes, and can resize `from`, the part that is read: the kernels read
// a few bytes beyond a row, which must be those of the next.
bool shrinks_much(const ResizeGeometry& geometry, ConstImageView from);

class ShrinkRows {
  public:
    // `from`: the part that is read, from the first tap of both axes on. scratch.filter has been built.
    ShrinkRows(const ShrinkKernels& kernels, ConstImageView from, const ResizeAxis& vertical, std::size_t out_bytes,
               ShrinkScratch& scratch);

    // Writes row y of the result to `out`. Rows are asked for in order.
    void next(int y, std::uint8_t* out);

  private:
    std::uint8_t* quad(int number);
    void filter_quad();

    const ShrinkKernels& kernels_;
    ConstImageView from_;
    const ResizeAxis& vertical_;
    ShrinkScratch& scratch_;
    std::size_t out_bytes_;
    std::size_t quad_bytes_;
    int used_digits_;
    int ring_;          // quad rows in the ring
    int filtered_ = 0;  // quad rows after the horizontal pass
};

}  // namespace stoker
