// JPEG to RGB rows: baseline, progressive, grey, CMYK and YCCK, with the exact (slow integer) inverse DCT and
// smooth chroma upsampling, so pixels equal Pillow's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg/block_pixels.h"
#include "stoker/codecs/jpeg/huffman_reader.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"
#include "stoker/codecs/region.h"

namespace stoker {

// Keeps its memory from image to image. Both calls throw DataError.
class JpegDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
    // By libjpeg alone: the twin that the other is tested against.
    void decode_reference(std::span<const std::byte> bytes, RowSink& sink);

  private:
    bool draw(const Region& region, RowSink& sink);
    void decode_rows(RowSink& sink);

    JpegReader reader_;
    Frame frame_;
    HuffmanReader huffman_;
    BlockPixels pixels_;
    std::vector<std::uint8_t> cmyk_;  // one row, (W, 4)
    std::vector<std::uint8_t> row_;   // one row that is not wanted as a whole
};

}  // namespace stoker
