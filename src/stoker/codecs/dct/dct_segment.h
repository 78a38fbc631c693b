// One block row of one component as the dct codec stores it, and back. A segment is, in this order:
//   lengths   4 bits a block, the first block in the low half: how many mask bytes it has, 0 to 8
//   dc        int8 a block: the DC less the one before it in the row (0 before the first); -128: see dc_wide
//   dc_wide   int16 for each -128 in dc
//   masks     bit k of a block's mask: the AC coefficient k + 1 in zigzag order is not 0
//   values    4 bits for each bit set, in order, from -8 to 7; 0: see escapes
//   escapes   int8 for each 0 in values; -128: see wide
//   wide      int16 for each -128 in escapes, stored backwards from the segment's end
// Numbers of several bytes are little-endian. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/codecs/dct/segment_kernels.h"

namespace stoker {

// A segment in four parts, for those who store the parts of several segments side by side.
struct SegmentParts {
    std::vector<std::byte> front;  // lengths, dc, dc_wide
    std::vector<std::byte> masks;
    std::vector<std::byte> values;
    std::vector<std::byte> escapes;  // and wide
};

// Appends to each part what belongs to `count` blocks (count, 8, 8), natural order. A segment is its parts in order.
void write_segment(const std::int16_t* blocks, int count, SegmentParts& parts);

// What reading keeps from segment to segment.
struct SegmentScratch {
    std::vector<std::uint8_t> lengths;
    std::vector<std::int16_t> dc;
    std::vector<std::uint32_t> starts;  // each expanded block's first value
    std::vector<std::int8_t> memory;    // of the values, with room before and behind

    std::int8_t* values() { return memory.data() + 64; }
    void reserve(int blocks);
};

// The sizes of the parts of the segment of `blocks` blocks that the four parts begin with; false where they cannot be
// or are cut short. Each part has kSegmentPadding readable bytes behind it.
struct SegmentSizes {
    std::size_t front = 0;
    std::size_t masks = 0;
    std::size_t values = 0;
    std::size_t escapes = 0;
};
bool measure_segment(const std::span<const std::byte> (&parts)[4], int blocks, const SegmentKernels& kernels,
                     SegmentScratch& scratch, SegmentSizes& sizes);

// Blocks first ... first + count - 1 of a segment of `blocks` blocks to `out` (count, 8, 8), aligned to 64 bytes.
// False for a segment that cannot be; whatever its bytes are, nothing outside of it and kSegmentPadding is read.
bool read_segment(std::span<const std::byte> segment, int blocks, int first, int count, const SegmentKernels& kernels,
                  SegmentScratch& scratch, std::int16_t* out);

}  // namespace stoker
