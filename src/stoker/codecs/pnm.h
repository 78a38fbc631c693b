// PPM and PGM (binary: P6 and P5) to RGB rows, with 8 or 16 bits per sample. Parsed without a library, because the
// header is only three numbers.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

bool is_pnm(std::span<const std::byte> bytes);

// Both functions throw DataError.
class PnmDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
