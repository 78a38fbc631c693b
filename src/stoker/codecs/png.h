// PNG to RGB rows with libspng: every colour type and bit depth, palettes, interlacing. Alpha and
// transparency are dropped, as in Pillow's convert("RGB").
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Reuses its memory from image to image. Both functions throw DataError. Rows below the sink's region are not
// decoded, so their damage is not noticed.
class PngDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    std::vector<std::uint8_t> row_;  // scratch for RegionRows
    Image interlaced_;               // a whole interlaced image: its rows are complete only after the last pass
};

}  // namespace stoker
