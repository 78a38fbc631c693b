// Runs ops on the masks of classes and the boxes of an image. An op draws the same as for the image, because
// its random stream depends on the sample and the op alone. Semantics are those of torchvision's tv_tensors.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/rng.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// A mask (H, W, 1) after the ops: nearest pixels, 0 outside, unchanged by ops on colours. The view is in `mask` or in
// `scratch`.
ConstImageView run_on_mask(const OpSlice& slice, RngKey key, ConstImageView mask, TransformScratch& scratch);

// Boxes (K, 4) of x1, y1, x2, y2 in pixels of an image of size `image`, changed in place and clipped. Returns the size
// of the image after the ops.
ImageSize run_on_boxes(const OpSlice& slice, RngKey key, ImageSize image, std::span<float> boxes,
                       const std::optional<ImageSize>& batch_size = {});

// Throws InvalidArgument, which names the mask or boxes, for ops that torchvision has for images only, such as
// trivial_augment_wide.
void require_overlay_ops(std::span<const Op> ops, const Field& field);

}  // namespace stoker
