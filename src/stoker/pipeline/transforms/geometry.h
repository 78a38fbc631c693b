// Folds crops, one resize and flips into one operation: crop a box of the image, resize it, keep a part of the result
// and perhaps flip it. It is known before the image is decoded, so only the pixels it reads need decoding.
#pragma once

#include "stoker/base/image.h"
#include "stoker/ops/resize.h"

namespace stoker {

class Geometry {
  public:
    Geometry() = default;
    explicit Geometry(ImageSize image);

    // The output size.
    ImageSize size() const { return {part_.height, part_.width}; }

    // Each adds one op. Returns false and changes nothing if the pixels would differ from running op after op: a crop
    // that reaches outside, a second resize (it would see rounded pixels), a resize after a flip (its weights are not
    // quite symmetric). The pixels must then be rendered first.
    bool crop(const Box& box);
    bool can_resize() const { return !resized_ && !flip_; }
    bool resize(ImageSize size, Interpolation interpolation = Interpolation::bilinear);
    void flip() { flip_ = !flip_; }

    // True if the output is a box of the image, without resize or flip.
    bool is_crop() const { return !resized_ && !flip_; }

    // The box of the image that is resized, and the resize.
    const Box& box() const { return box_; }
    ResizeGeometry resizing() const { return {{box_.height, box_.width}, full_, part_, flip_, interpolation_}; }

    // The box of the image whose pixels are read.
    Box reads() const;

    // The largest factor of 1, 2, 4, 8 by which a decoder may shrink the image without getting below the output size.
    int shrink() const;
    // The same geometry for an image of 1/shrink of the size.
    Geometry shrunk(int shrink) const;

  private:
    Box box_{};
    ImageSize full_{};
    Box part_{};  // of full_
    bool resized_ = false;
    bool flip_ = false;
    Interpolation interpolation_ = Interpolation::bilinear;
};

}  // namespace stoker
