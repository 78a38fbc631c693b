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
    Buffer rows;   // copies of rows, with bytes behind them that may be read
    std::vector<const std::uint8_t*> quad_rows;
    std::vector<std::int8_t> digits;  // (quads, kShrinkDigits, kShrinkRows)
};

// True if ShrinkRows is faster than RowResizer's passes.
bool shrinks_much(const ResizeGeometry& geometry, int channels);

class ShrinkRows {
  public:
    // Rows of `out_bytes`; scratch.filter has been built.
    ShrinkRows(const ShrinkKernels& kernels, const ResizeAxis& vertical, std::size_t out_bytes, ShrinkScratch& scratch);

    // The quads that were added, and those that row y of the result needs.
    int quads() const { return filtered_; }
    int quads_for(int y) const;

    // The next four rows of the part that is read, each from the first tap on. kShrinkOverread bytes behind each may be
    // read. The last row is repeated if there are fewer.
    void add(const std::uint8_t* const (&rows)[kShrinkRows]);

    // Writes row y of the result to `out`. Needs quads_for(y) quads, and that no row before is asked for again.
    void write(int y, std::uint8_t* out);

  private:
    std::uint8_t* quad(int number);

    const ShrinkKernels& kernels_;
    const ResizeAxis& vertical_;
    ShrinkScratch& scratch_;
    std::size_t out_bytes_;
    std::size_t quad_bytes_;
    int used_digits_;
    int ring_;          // quad rows in the ring
    int filtered_ = 0;  // quad rows after the horizontal pass
};

}  // namespace stoker
