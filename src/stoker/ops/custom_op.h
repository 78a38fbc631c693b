// A user's op: a class with `apply`, which draws its parameters and changes the image.
#pragma once

#include <span>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/resize.h"

namespace stoker {

// It keeps the image's size and channels, and counts as random.
class CustomOp {
  public:
    CustomOp() = default;
    CustomOp(const CustomOp&) = delete;
    CustomOp& operator=(const CustomOp&) = delete;
    virtual ~CustomOp() = default;

    // Changes the pixels (H, W, C) in place. Many threads call it at once. `rng` is the stream of this op and sample,
    // so that the result does not depend on the thread.
    virtual void apply(ImageView image, Rng rng) const = 0;

    // The same for a mask (H, W, 1) and for boxes (K, 4) of x1, y1, x2, y2 on that image, with the same stream. An op
    // that moves no pixels changes neither.
    virtual void apply_to_mask(ImageView /*mask*/, Rng /*rng*/) const {}
    virtual void apply_to_boxes(std::span<float> /*boxes*/, ImageSize /*image*/, Rng /*rng*/) const {}
};

}  // namespace stoker
