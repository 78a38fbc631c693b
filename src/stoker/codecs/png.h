// PNG to RGB rows through libspng: every colour type and bit depth, palettes, interlacing. Alpha and
// transparency are dropped, as Pillow's convert("RGB") does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Keeps its memory from image to image. Both calls throw DataError. Rows below the sink's region are not
// decoded, and what is wrong with them is not noticed.
class PngDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    std::vector<std::uint8_t> row_;  // one row that is not wanted as a whole
    Image whole_;                    // an interlaced image, whose rows are complete only at its end
};

}  // namespace stoker
