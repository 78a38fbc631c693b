// Encodes pixels as PNG or JPEG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stoker/base/image.h"

namespace stoker {

// `image` has 1 (grey) or 3 (RGB) channels. Both functions throw InvalidArgument for other shapes. `software`: the
// program that made it, which a PNG may name (the chunk tEXt, before the pixels).
std::vector<std::byte> encode_png(ConstImageView image, std::string software = {});

struct JpegOptions {
    int quality = 90;        // 1..100
    bool chroma_420 = true;  // false: 4:4:4
    bool progressive = false;
};
std::vector<std::byte> encode_jpeg(ConstImageView image, const JpegOptions& options = {});

}  // namespace stoker
