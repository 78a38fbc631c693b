// WebP to RGB rows with libwebp: lossy and lossless still images. Alpha is dropped, as in Pillow's convert("RGB").
// Animations are refused, because it is not clear which frame is the sample.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Reuses its memory from image to image. Both functions throw DataError.
class WebpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    Image pixels_;  // libwebp cannot write to a RowSink
};

}  // namespace stoker
