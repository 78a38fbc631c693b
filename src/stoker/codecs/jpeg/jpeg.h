// JPEG to RGB rows: baseline, progressive, grey, CMYK and YCCK, with the accurate integer inverse DCT and smooth chroma
// upsampling, so the pixels equal Pillow's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/jpeg/block_decoder.h"
#include "stoker/codecs/jpeg/huffman_reader.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"
#include "stoker/codecs/region.h"

namespace stoker {

// Reuses its memory from image to image. All functions throw DataError.
class JpegDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    // `points`: of this image; known ones are used, and those that decoding finds are added.
    void decode(std::span<const std::byte> bytes, RowSink& sink, EntryPointSlot* points = nullptr);
    // Adds all entry points that are not known. Leaves them empty for a file that has none.
    void find_points(std::span<const std::byte> bytes, EntryPointSlot& points);
    // Decodes with libjpeg alone. The tests and encode_dct compare other decoders with it.
    void decode_reference(std::span<const std::byte> bytes, RowSink& sink);
    // The time in Huffman decoding of baseline files since the last call.
    std::chrono::nanoseconds take_entropy_time() { return huffman_.take_time(); }

  private:
    bool open_baseline(EntryPointSlot* points);
    void complete(EntryPointSlot& points);
    bool decode_baseline(const Region& region, RowSink& sink, EntryPointSlot* points);
    void decode_with_libjpeg(const Box& box, RowSink& sink);

    JpegReader reader_;
    JpegFrame frame_;
    HuffmanReader huffman_;
    BlockDecoder pixels_;
    std::vector<std::uint8_t> cmyk_;  // one row, (W, 4)
    std::vector<std::uint8_t> row_;   // scratch for RegionRows
};

}  // namespace stoker
