// The pixel ops inside trivial augment that need no drawing of their own: torchvision's posterize, solarize,
// autocontrast, equalize, invert and adjust_sharpness on uint8, in place, C = 1 or 3. Integers and single
// float operations: the same bits on every processor.
#pragma once

#include "stoker/base/image.h"

namespace stoker {

// Keeps the upper `bits` of 8 of every value.
void posterize(ImageView image, int bits);

// Inverts values of at least `threshold`, which is at most 255.
void solarize(ImageView image, float threshold);

// 255 - x.
void invert(ImageView image);

// Stretches each channel from its least and largest value to 0 and 255; a flat channel stays.
void autocontrast(ImageView image);

// Flattens each channel's histogram; a channel of nearly one value stays.
void equalize(ImageView image);

// Blends with the image smoothed by a 3 x 3 filter: 0 is smooth, 1 unchanged, 2 sharper. The border of one
// pixel stays. `rows` keeps originals of rows that are already overwritten.
void adjust_sharpness(ImageView image, float factor, Image& rows);

}  // namespace stoker
