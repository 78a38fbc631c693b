// The size of the pictures that an AVIF or a HEIC contains, from the headers of AV1 and HEVC. The size that the
// container states may be another: a file of 2 KB that says 16 x 16 had libheif 1.15 decode 12000 x 12000 pixels in 1
// GB.
#pragma once

#include <cstdint>

#include "stoker/codecs/heif_items.h"

namespace stoker {

struct CodedSizes {
    std::uint64_t largest = 0;   // pixels of the largest picture
    std::uint64_t canvases = 0;  // pixels of the grids that tiles are copied to
};

// The sizes of the images that are decoded for the primary one: its tiles and their auxiliary images. Throws DataError
// for one of more than kMaxPixels, for more than 4 * kMaxPixels together, and for an image without a header.
CodedSizes coded_sizes(const HeifItems& items);

}  // namespace stoker
