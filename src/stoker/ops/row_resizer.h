// Resizes an image and returns its rows one by one, in order. The callers write them to an image or convert them to
// floats. Internal to ops/.
#pragma once

#include <cstdint>
#include <optional>

#include "stoker/ops/kernels.h"
#include "stoker/ops/resize.h"

namespace stoker {

class RowResizer {
  public:
    // `from` holds the part `window` of the geometry's source. The caller has checked all arguments.
    RowResizer(const OpKernels& kernels, ConstImageView from, const Box& window, const ResizeGeometry& geometry,
               ResizeScratch& scratch);

    // Writes the next row of the part, not flipped, to `out` (part.width, C).
    void next(std::uint8_t* out);

  private:
    const std::uint8_t* row(int y);  // an input row of the vertical pass
    void run_horizontal_pass();
    void add_quad();

    const OpKernels& kernels_;
    ResizeScratch& scratch_;
    ConstImageView from_;  // the part that is read: its row 0 is the first row of any tap
    std::size_t out_bytes_;
    bool horizontal_;  // the width changes
    bool vertical_;    // the height changes
    int ring_rows_ = 0;
    int filtered_ = 0;  // rows after the horizontal pass
    int y_ = 0;
    std::optional<ShrinkRows> shrink_;  // runs both passes instead
};

}  // namespace stoker
