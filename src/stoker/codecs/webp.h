// WebP to RGB rows through libwebp: lossy and lossless stills. Alpha is dropped, as Pillow's convert("RGB")
// does. Animations are refused: which of their frames is the sample?
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Keeps its memory from image to image. Both calls throw DataError.
class WebpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    Image pixels_;  // libwebp writes its rows in steps of its own
};

}  // namespace stoker
