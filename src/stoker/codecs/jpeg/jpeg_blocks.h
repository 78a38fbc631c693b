// A JPEG's quantised coefficients through libjpeg, whatever its coding process: what the dct codec stores.
// Internal to codecs/.
#pragma once

#include <vector>

#include "stoker/codecs/jpeg/frame.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {

// What the header of an opened JPEG says, for the pixel stage; false where that stage cannot draw it (CMYK,
// 12 bits, odd sampling factors).
bool read_frame(const jpeg_decompress_struct& codec, Frame& frame);
// Those known so far; false where one is missing.
bool read_quant_tables(const jpeg_decompress_struct& codec, Frame& frame);

struct JpegBlocks {
    Frame frame;
    std::vector<std::int16_t> blocks[3];  // (blocks_high, blocks_wide, 8, 8), natural order
};

// Of an opened JPEG whose frame was read. Throws DataError.
JpegBlocks read_blocks(JpegReader& reader, const Frame& frame);

}  // namespace stoker
