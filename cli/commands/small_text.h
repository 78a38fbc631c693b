// Writes text into an image with a bitmap font of printable ASCII, for the labels of `stoker show`.
#pragma once

#include <string_view>

#include "stoker/base/image.h"

namespace stoker::cli {

inline constexpr int kLetterHeight = 7;  // pixels, at scale 1

// True if the font has every letter.
bool can_draw(std::string_view text);

// The width in pixels at scale 1, with one empty column between letters.
int text_width(std::string_view text);

// Draws white letters from the view's top left corner; each pixel of the font becomes scale x scale pixels. The text
// must fit into the RGB view, and can_draw it.
void draw_text(std::string_view text, int scale, ImageView view);

}  // namespace stoker::cli
