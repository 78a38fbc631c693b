// AVIF and HEIC, with libheif, which is opened at the first such file. It has AV1 and HEVC decoded by dav1d and
// libde265.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// The primary image. Turns and mirrors that the container asks for are applied to a HEIC, as in pillow-heif; of an AVIF
// they are its orientation, as in Pillow. A sequence is refused, as an animated WebP, unless first frames are accepted:
// then its primary image is read. Throws DataError, and IoError without the library.
class HeifDecoder {
  public:
    void accept_first_frames(bool accept) { first_frames_ = accept; }
    ImageInfo info(std::span<const std::byte> bytes) const;
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    bool first_frames_ = false;
    std::vector<std::uint8_t> row_;  // scratch for RegionRows
};

}  // namespace stoker
