// Images that Stoker draws: shapes and textures on backgrounds with the statistics of photographs (gradients, noise
// that falls off with frequency, grain), so that their JPEG files have realistic sizes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "stoker/base/image.h"

namespace stoker {

// Class names by label, sorted bytewise as an image folder sorts them.
inline constexpr std::array<std::string_view, 8> kSynthPhotoClasses = {"checker", "circles", "dots",      "rings",
                                                                       "stars",   "stripes", "triangles", "waves"};

// Draws image `index` of class `label` into `image`: uint8 RGB (height, width, 3), each side 320 to 640 pixels. A pure
// function of its arguments. Throws InvalidArgument for a label that is not a class.
void draw_synth_photo(std::int64_t index, int label, std::uint64_t seed, Image& image);

}  // namespace stoker
