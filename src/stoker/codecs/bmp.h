// BMP to RGB rows: 1, 4 and 8 bits with a palette, 24 and 32 bits, uncompressed, bottom-up or top-down. Parsed
// without a library, because the format is only a header and rows.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// Checks "BM" and the size of the second header, because text may begin with "BM", too.
bool is_bmp(std::span<const std::byte> bytes);

// Both functions throw DataError.
class BmpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
