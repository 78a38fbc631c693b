// GIF, with giflib, which is opened at the first GIF. The pixels of the first frame are Pillow's.
#pragma once

#include <cstddef>
#include <span>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

bool is_gif(std::span<const std::byte> bytes);

// An animation is refused, as that of a WebP, unless first frames are accepted; later frames are then not read. Throws
// DataError, and IoError without the library.
class GifDecoder {
  public:
    void accept_first_frames(bool accept) { first_frames_ = accept; }
    ImageInfo info(std::span<const std::byte> bytes) const;
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    bool first_frames_ = false;
    Image indices_;  // of the first frame
};

}  // namespace stoker
