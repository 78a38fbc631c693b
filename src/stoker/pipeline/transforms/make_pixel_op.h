// Options to ops on pixels, checked; the table is in op_table.cpp. Names and defaults are torchvision's.
#pragma once

#include "stoker/pipeline/transforms/op_options.h"
#include "stoker/pipeline/transforms/pixel_ops.h"

namespace stoker {

PixelOp make_vertical_flip(OpOptions& options);
PixelOp make_random_rotation(OpOptions& options);
PixelOp make_color_jitter(OpOptions& options);
PixelOp make_random_grayscale(OpOptions& options);
PixelOp make_random_erasing(OpOptions& options);
PixelOp make_trivial_augment_wide(OpOptions& options);

}  // namespace stoker
