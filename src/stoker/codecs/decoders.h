// Decoders of PNG, WebP, BMP and PNM to RGB rows. Alpha and transparency are dropped, as in Pillow's convert("RGB").
// They reuse their memory from image to image. All functions of the classes throw DataError.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"
#include "stoker/codecs/codec.h"

namespace stoker {

// With libspng: every colour type and bit depth, palettes, interlacing. Rows below the sink's region are not decoded,
// so their damage is not noticed.
class PngDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    // With `indices`, each of the three channels is the stored grey level or palette index, not scaled to 8 bits. Other
    // colour types, and indices above 255, are refused.
    void decode(std::span<const std::byte> bytes, RowSink& sink, bool indices = false);
    // Calls take(y, row) for each row from the top: RGBA, each of 16 bits in the host's byte order.
    void decode_deep(std::span<const std::byte> bytes, const std::function<void(int, const std::uint8_t*)>& take);

  private:
    std::vector<std::uint8_t> row_;  // scratch for RegionRows
    Image interlaced_;               // a whole interlaced image: its rows are complete only after the last pass
};

// With libwebp: lossy and lossless images. An animation is refused, because it is not clear which frame is the sample,
// unless first frames are accepted; the canvas around a smaller first frame is black, and later frames are not read.
class WebpDecoder {
  public:
    void accept_first_frames(bool accept) { first_frames_ = accept; }
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    bool first_frames_ = false;
    Image pixels_;  // libwebp cannot write to a RowSink
    Image canvas_;  // around a first frame that is smaller
};

// BMP: 1, 4 and 8 bits with a palette, also run-length encoded; 16, 24 and 32 bits, also with colour masks; bottom-up
// or top-down. Parsed without a library, because the format is only a header and rows. is_bmp checks "BM" and the size
// of the second header, because text may also begin with "BM".
bool is_bmp(std::span<const std::byte> bytes);
class BmpDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    Buffer indices_;  // of a run-length encoded image, whose lowest row comes first
};

// PBM, PGM and PPM, as text (P1, P2, P3) and binary (P4, P5, P6), with 1, 8 or 16 bits per sample. Parsed without a
// library, because the header is only three numbers.
bool is_pnm(std::span<const std::byte> bytes);
class PnmDecoder {
  public:
    ImageInfo info(std::span<const std::byte> bytes);
    void decode(std::span<const std::byte> bytes, RowSink& sink);

  private:
    std::vector<std::uint8_t> row_;  // scratch for RegionRows
};

// Run-length encoded rows of a BMP (compression 1 and 2). Decodes the runs at `offset` to colour indices (height,
// width), in the order of the file, the lowest row first. `nibbles`: 4 bits a pixel, otherwise 8. Throws DataError if
// the runs do not fill the image. `indices` grows with the pixels that the runs describe, so a short file with a large
// size in its header costs no memory; throws MemoryError if they are too many.
void decode_bmp_runs(std::span<const std::byte> bytes, std::size_t offset, bool nibbles, int height, int width,
                     Buffer& indices);

}  // namespace stoker
