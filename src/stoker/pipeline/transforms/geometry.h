// The geometric ops of one image folded into one: a box of the image, resized, of which a part is kept,
// perhaps mirrored. Known before anything is decoded, so only what it reads has to be.
#pragma once

#include "stoker/base/image.h"
#include "stoker/ops/resize.h"

namespace stoker {

class Geometry {
  public:
    Geometry() = default;
    explicit Geometry(ImageSize image);

    // What the ops so far make of the image.
    ImageSize size() const { return {part_.height, part_.width}; }

    // Each adds one op. False, and nothing is changed, where the result would not be the same pixels as op
    // after op: a crop that reaches outside, a second resize (it would see rounded pixels), a resize of what
    // is mirrored (its weights are not quite symmetric). Then the pixels have to be made first.
    bool crop(const Box& box);
    bool can_resize() const { return !resized_ && !flip_; }
    bool resize(ImageSize size);
    void flip() { flip_ = !flip_; }

    // True where no pixel is computed anew: the result lies in the image.
    bool is_crop() const { return !resized_ && !flip_; }

    // The box of the image that is resized, and how.
    const Box& box() const { return box_; }
    ResizeGeometry resizing() const { return {{box_.height, box_.width}, full_, part_, flip_}; }

    // The rows and columns of the image that are read.
    Box reads() const;

    // By how much a decoder may shrink the image so that it still has to be shrunk to its new size: 1, 2, 4, 8.
    int shrink() const;
    // The same on an image of 1/shrink of the size.
    Geometry shrunk(int shrink) const;

  private:
    Box box_{};
    ImageSize full_{};
    Box part_{};  // of full_
    bool resized_ = false;
    bool flip_ = false;
};

}  // namespace stoker
