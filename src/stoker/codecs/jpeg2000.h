// JPEG 2000, with OpenJPEG, which is opened at the first such file.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// The size comes from the file's headers without the library. Throws DataError, and IoError without the library.
class Jpeg2000Decoder {
  public:
    static ImageInfo info(std::span<const std::byte> bytes);
    static void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
