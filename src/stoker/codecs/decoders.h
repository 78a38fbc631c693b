// Decoders of PNG, WebP, BMP and PNM to RGB rows. Alpha and transparency are dropped, as in Pillow's convert("RGB").
// They reuse their memory from image to image. All functions of the classes throw DataError.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// With libspng: every colour type and bit depth, palettes, interlacing. Rows below the sink's region are not decoded,
// so their damage is not noticed.
class PngDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    std::vector<std::uint8_t> row_;  // scratch for RegionRows
    Image interlaced_;               // a whole interlaced image: its rows are complete only after the last pass
};

// With libwebp: lossy and lossless still images. Animations are refused, because it is not clear which frame is the
// sample.
class WebpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    Image pixels_;  // libwebp cannot write to a RowSink
};

// Uncompressed BMP: 1, 4 and 8 bits with a palette, 24 and 32 bits, bottom-up or top-down. Parsed without a library,
// because the format is only a header and rows. is_bmp checks "BM" and the size of the second header, because text may
// begin with "BM", too.
bool is_bmp(std::span<const std::byte> bytes);
class BmpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

// Binary PPM and PGM (P6 and P5) with 8 or 16 bits per sample. Parsed without a library, because the header is only
// three numbers.
bool is_pnm(std::span<const std::byte> bytes);
class PnmDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);
};

}  // namespace stoker
