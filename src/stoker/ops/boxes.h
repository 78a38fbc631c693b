// Bounding boxes that follow their image: torchvision v2's kernels for tv_tensors.BoundingBoxes of the format XYXY, in
// float32 and in its order of operations. Boxes lie one after the other, x1 y1 x2 y2, in pixels. All functions throw
// InvalidArgument for a number of values that is not a multiple of 4.
#pragma once

#include <span>

#include "stoker/base/image.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/random_crop.h"
#include "stoker/ops/resize.h"

namespace stoker {

// Moves boxes to the coordinates of `crop`, which may begin outside of the image, and clips them to it.
void crop_boxes(std::span<float> boxes, const Box& crop);

// random_crop with the drawn `window` on an image of this size: as v2 pads, clips, crops and clips. v2 has boxes for
// constant padding only; other modes throw InvalidArgument.
void random_crop_boxes(std::span<float> boxes, const RandomCrop& op, const Box& window, ImageSize image);

void resize_boxes(std::span<float> boxes, ImageSize from, ImageSize to);

void horizontal_flip_boxes(std::span<float> boxes, int width);
void vertical_flip_boxes(std::span<float> boxes, int height);

// The smallest upright box around the four moved corners, clipped to the image. `move` is about the image's centre.
void affine_boxes(std::span<float> boxes, const AffineParams& move, ImageSize image);

// The same for a rotation by `degrees`, counter-clockwise.
void rotate_boxes(std::span<float> boxes, double degrees, ImageSize image);

}  // namespace stoker
