// PPM and PGM (P6 and P5, the binary ones) to RGB rows, with 8 or 16 bits a sample. No library: the format is
// three numbers and rows.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

bool is_pnm(std::span<const std::byte> bytes);

// Both calls throw DataError.
class PnmDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
