// BMP to RGB rows: 1, 4 and 8 bits with a palette, 24 and 32 bits, not compressed, stored from the bottom or
// from the top. No library: the format is a header and rows.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// "BM" alone also begins words, so the size of the second header is looked at, too.
bool is_bmp(std::span<const std::byte> bytes);

// Both calls throw DataError.
class BmpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
