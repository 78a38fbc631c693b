// A resized image row by row, in order: what writes rows on, to an image or to floats, needs no more of it
// at a time. Internal to ops/.
#pragma once

#include <cstdint>

#include "stoker/ops/kernels.h"
#include "stoker/ops/resize.h"

namespace stoker {

class ResizeLines {
  public:
    // `from` holds what `window` says of the geometry's source. All of it is checked by the caller.
    ResizeLines(const OpKernels& kernels, ConstImageView from, const Box& window, const ResizeGeometry& geometry,
                ResizeScratch& scratch);

    // The next row of the part, not mirrored, to `out` (part.width, C).
    void next(std::uint8_t* out);

  private:
    const std::uint8_t* row(int y);  // of what the vertical pass reads
    void filter_widths();

    const OpKernels& kernels_;
    ResizeScratch& scratch_;
    ConstImageView from_;  // what is read: its row 0 is the first that any tap wants
    std::size_t out_bytes_;
    bool widths_;
    bool heights_;
    int ring_rows_ = 0;
    int filtered_ = 0;  // rows that the horizontal pass has done
    int y_ = 0;
};

}  // namespace stoker
