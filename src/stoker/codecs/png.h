// PNG to RGB rows through libspng: every colour type and bit depth, palettes, interlacing. Alpha and
// transparency are dropped, as Pillow's convert("RGB") does.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Keeps its memory for interlaced images. Both calls throw DataError.
class PngDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    Image whole_;  // an interlaced image, whose rows are complete only at its end
};

}  // namespace stoker
