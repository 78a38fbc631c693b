// The ops that change pixels and not the window on them: which there are, whether one as drawn changes
// anything, and running one. To add one: its type in PixelOp, and a branch in each visitor of pixel_ops.cpp.
#pragma once

#include <variant>

#include "stoker/base/image.h"
#include "stoker/base/rng.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/grayscale.h"
#include "stoker/ops/random_erasing.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/rotation.h"
#include "stoker/ops/trivial_augment.h"
#include "stoker/ops/vertical_flip.h"

namespace stoker {

// All of them draw, and none changes an image's size.
using PixelOp =
    std::variant<VerticalFlip, RandomRotation, ColorJitter, RandomGrayscale, RandomErasing, TrivialAugmentWide>;

// False where the op, with what `rng` gives, leaves an image of this size as it is: then no pixels are needed.
bool changes_pixels(const PixelOp& op, ImageSize size, Rng rng);

// The op in place, with the same draws. `scratch` holds originals meanwhile.
void run_pixel_op(const PixelOp& op, ImageView image, Rng rng, Image& scratch);

}  // namespace stoker
