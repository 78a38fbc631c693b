// Reads a JPEG's frame, tables and quantised coefficients with libjpeg, for every coding process. Internal to codecs/.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/codecs/jpeg/jpeg_frame.h"
#include "stoker/codecs/jpeg/jpeg_reader.h"

namespace stoker {

// Reads the frame of an opened JPEG. Returns false if BlockDecoder cannot decode it: CMYK, 12 bits, non-integer
// sampling ratios.
bool read_frame(const jpeg_decompress_struct& codec, JpegFrame& frame);
// Reads the quantisation tables that libjpeg has seen so far. Returns false if one is missing.
bool read_quant_tables(const jpeg_decompress_struct& codec, JpegFrame& frame);

struct JpegBlocks {
    JpegFrame frame;
    std::vector<std::int16_t> blocks[3];  // (blocks_high, blocks_wide, 8, 8), natural order
};

// Reads the blocks of an opened JPEG, after read_frame. Throws DataError.
JpegBlocks read_blocks(JpegReader& reader, const JpegFrame& frame);

}  // namespace stoker
