// The crop of a plain JPEG (dct_crop.h): the pieces of its scan that a box needs, still Huffman-coded, which a device
// decodes by the entry points of the image. It is one piece of memory, aligned to kDctCropAlignment:
//   DctCrop, JpegScan, its pieces (JpegPiece), then the pieces' bytes without stuffed zeros, and some zeros,
//   because a block may run beyond its piece
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "stoker/codecs/dct/dct_crop.h"
#include "stoker/codecs/jpeg/entry_points.h"

namespace stoker {

inline constexpr int kMostMcuBlocks = 10;  // T.81, B.2.3

// The codes of a Huffman table (huffman_table.h).
struct JpegCodes {
    std::uint32_t limits[17] = {};
    std::uint32_t offsets[17] = {};
    std::uint8_t symbols[256] = {};
};

// A block of each MCU.
struct JpegMcuBlock {
    std::uint8_t component = 0;
    std::uint8_t dc = 0;  // its tables, in JpegScan::codes
    std::uint8_t ac = 0;
    std::uint8_t h = 1;  // blocks of the component in an MCU
    std::uint8_t v = 1;
    std::uint8_t column = 0;  // its place among them
    std::uint8_t row = 0;
    std::uint8_t unused = 0;
};

struct JpegScan {
    std::uint32_t bytes = 0;  // their place in the crop; a multiple of 4
    std::uint32_t mcu_blocks = 0;
    JpegMcuBlock blocks[kMostMcuBlocks] = {};
    JpegCodes codes[4] = {};  // two of DC, two of AC
};

// MCUs of one row.
struct JpegPiece {
    std::uint32_t bit = 0;  // the first, in the bytes
    std::uint32_t end = 0;  // the one behind the last
    std::uint16_t mcu_row = 0;
    std::uint16_t mcu_column = 0;
    std::uint16_t count = 0;      // of MCUs
    std::int16_t dc[3] = {};      // of each component's last block before
    std::int16_t end_dc[3] = {};  // of the last block in it
    std::uint16_t unused = 0;
};
static_assert(sizeof(JpegCodes) == 392 && sizeof(JpegMcuBlock) == 8 && sizeof(JpegScan) == 1656 &&
              sizeof(JpegPiece) == 28);
static_assert(std::is_trivially_copyable_v<JpegScan> && std::is_trivially_copyable_v<JpegPiece>);

// Use one per thread; it reuses its memory.
class JpegCropper {
  public:
    JpegCropper();
    JpegCropper(JpegCropper&&) noexcept;
    JpegCropper& operator=(JpegCropper&&) noexcept;
    ~JpegCropper();

    // Throws DataError where JpegDecoder does. The caller keeps the image alive until the last call of `crop`.
    ImageInfo open(std::span<const std::byte> jpeg);

    // The crop for a box of the image, valid until the next call. Empty where it would have more than `most` bytes, and
    // if the host must decode: the image is not one baseline scan, points of some rows of the box are not known, or
    // they are not those of the image. That its pieces are valid, only their decoding shows.
    std::span<const std::byte> crop(const Box& box, EntryPoints points, std::size_t most);

  private:
    struct State;
    std::unique_ptr<State> state_;  // null before the first image
};

}  // namespace stoker
