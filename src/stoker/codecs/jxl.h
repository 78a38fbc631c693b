// JPEG XL, with libjxl, which is opened at the first such file.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// A codestream, or a container of boxes.
bool is_jxl(std::span<const std::byte> bytes);

// The file's own orientation is part of its pixels, as the format's standard demands: they come upright. An animation
// is refused, as that of a WebP, unless first frames are accepted. Throws DataError, and IoError without the library.
class JxlImageDecoder {
  public:
    void accept_first_frames(bool accept) { first_frames_ = accept; }
    ImageInfo info(std::span<const std::byte> bytes) const;
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    bool first_frames_ = false;
    Image pixels_;  // libjxl cannot write to a RowSink
};

}  // namespace stoker
