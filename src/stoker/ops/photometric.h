// torchvision's posterize, solarize, invert, autocontrast, equalize and adjust_sharpness on uint8, in place, C = 1 or
// 3, and its ops that apply one of them at random. All throw InvalidArgument for wrong parameters and DataError for
// other shapes. The bits are the same on every processor.
#pragma once

#include "stoker/base/image.h"
#include "stoker/base/rng.h"

namespace stoker {

// Keeps the upper `bits` of 8 of every value.
void posterize(ImageView image, int bits);

// Inverts values of at least `threshold`, which is at most 255.
void solarize(ImageView image, float threshold);

// Adds `amount`, 0 to 255, to values below 128, up to 255: timm's.
void solarize_add(ImageView image, int amount);

// 255 - value.
void invert(ImageView image);

// Stretches each channel so that its minimum becomes 0 and its maximum 255. Constant channels stay.
void autocontrast(ImageView image);

// Equalizes each channel's histogram. Nearly constant channels stay.
void equalize(ImageView image);

// Blends with the image smoothed by a 3 x 3 filter: factor 0 is smooth, 1 unchanged, 2 sharper. The border of one pixel
// stays. `rows` is scratch memory for original rows.
void adjust_sharpness(ImageView image, float factor, Image& rows);

enum class Photometric { posterize, solarize, invert, autocontrast, equalize, sharpness };

// RandomPosterize, RandomSolarize and so on.
struct RandomPhotometric {
    Photometric kind = Photometric::invert;
    float amount = 0;  // bits, threshold or factor; unused by the others
    float probability = 0.5f;
};

// Throws InvalidArgument for bits, a threshold or a factor that the op does not have.
void require_possible(const RandomPhotometric& op);

bool draw_random_photometric(const RandomPhotometric& op, Rng& rng);

// Runs the op with its amount.
void photometric(ImageView image, const RandomPhotometric& op, Image& rows);

}  // namespace stoker
