// Encodes pixels as PNG or JPEG.
#pragma once

#include <cstddef>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

// `image` has 1 (grey) or 3 (RGB) channels. Both functions throw InvalidArgument for other shapes.
std::vector<std::byte> encode_png(ConstImageView image);

struct JpegOptions {
    int quality = 90;        // 1..100
    bool chroma_420 = true;  // false: 4:4:4
    bool progressive = false;
};
std::vector<std::byte> encode_jpeg(ConstImageView image, const JpegOptions& options = {});

}  // namespace stoker
