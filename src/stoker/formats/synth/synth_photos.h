// Pictures that Stoker draws itself: shapes and textures over backgrounds with the statistics of photographs
// (gradients, noise that falls off with frequency, grain), so that their JPEG files weigh what real ones do.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "stoker/base/image.h"

namespace stoker {

// Class names by label, sorted bytewise as an image folder sorts them.
inline constexpr std::array<std::string_view, 8> kSynthPhotoClasses = {"checker", "circles", "dots",      "rings",
                                                                       "stars",   "stripes", "triangles", "waves"};

// Draws picture `index` of class `label` into `image`: uint8 RGB (height, width, 3), each side in
// 320..640. A pure function of its arguments. Throws InvalidArgument for a label that is no class.
void draw_synth_photo(std::int64_t index, int label, std::uint64_t seed, Image& image);

}  // namespace stoker
