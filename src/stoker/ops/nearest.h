// Resize to the nearest pixel, for masks of class indices: torchvision v2's resize of a tv_tensors.Mask, which is
// torch.nn.functional.interpolate(mode="nearest").
#pragma once

#include "stoker/base/image.h"
#include "stoker/ops/resize.h"

namespace stoker {

// Resizes `from` (h, w, C) to `to` (H, W, C), C = 1..4, all sizes at least 1. Throws InvalidArgument for other shapes.
void resize_nearest(ConstImageView from, ImageView to);

// Resizes `from`, of size `geometry.source`, and writes the part, flipped if asked for, to `to`, which has its size.
void resize_nearest(ConstImageView from, const ResizeGeometry& geometry, ImageView to);

}  // namespace stoker
