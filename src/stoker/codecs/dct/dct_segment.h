// Writes and reads a segment: one block row of one component. Its parts, in this order:
//   lengths   4 bits per block, the first block in the low half: the number of its mask bytes, 0 to 8
//   dc        int8 per block: the difference from the previous DC in the row (0 before the first); -128: see dc_wide
//   dc_wide   int16 for each -128 in dc
//   masks     bit k of a block's mask is set if the AC coefficient k + 1 in zigzag order is not 0
//   values    4 bits for each set bit, in order, from -8 to 7; 0: see escapes
//   escapes   int8 for each 0 in values; -128: see wide
//   wide      int16 for each -128 in escapes, stored backwards from the segment's end
// Integers are little-endian. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/codecs/dct/segment_kernels.h"

namespace stoker {

// A segment in four parts. Groups (dct_group.h) join the parts of several segments.
struct SegmentParts {
    std::vector<std::byte> front;  // lengths, dc, dc_wide
    std::vector<std::byte> masks;
    std::vector<std::byte> values;
    std::vector<std::byte> escapes;  // and wide

    // Pieces of the segment that write_segment writes; here so that they keep their memory.
    struct Pieces {
        std::vector<std::uint8_t> lengths;  // one nibble per element, like `values`
        std::vector<std::byte> dc;
        std::vector<std::byte> dc_wide;
        std::vector<std::uint8_t> values;
        std::vector<std::byte> wide;

        void clear();
    } pieces;

    void clear();  // the parts; keeps their memory
};

// Appends `count` blocks (count, 8, 8), natural order, to each part. The four parts in order are the segment.
void write_segment(const std::int16_t* blocks, int count, SegmentParts& parts);

// Replaces `segment` with the parts in order.
void join_segment(const SegmentParts& parts, std::vector<std::byte>& segment);

// Memory that readers reuse from segment to segment.
struct SegmentScratch {
    std::vector<std::uint8_t> lengths;
    std::vector<std::int16_t> dc;
    std::vector<std::uint32_t> starts;  // index of each expanded block's first value
    std::vector<std::int8_t> memory;    // the values, with padding before and after

    std::int8_t* values() { return memory.data() + 64; }
    void reserve(int blocks);
};

// Measures the first segment, of `blocks` blocks, in joined parts. Returns false if it is invalid or truncated. Each
// part must have kSegmentPadding readable bytes after it.
struct SegmentSizes {
    std::size_t front = 0;
    std::size_t masks = 0;
    std::size_t values = 0;
    std::size_t escapes = 0;
};
bool measure_segment(const std::span<const std::byte> (&parts)[4], int blocks, const SegmentKernels& kernels,
                     SegmentScratch& scratch, SegmentSizes& sizes);

// The places of blocks first ... first + count - 1 in a segment.
struct SegmentRange {
    const std::uint8_t* masks = nullptr;  // of the first block
    std::size_t mask_bytes = 0;
    const std::uint8_t* nibbles = nullptr;  // of the whole segment
    std::size_t first_value = 0;
    std::size_t values = 0;
    const std::int8_t* escapes = nullptr;  // of the first block
    std::size_t escaped = 0;
    const std::uint8_t* wide_end = nullptr;  // wide value k is the int16 at wide_end - 2 * (k + 1)
    std::size_t wide = 0;
};

// Finds them; `scratch` then has the lengths of all masks, and the DC values up to the last block. Returns false for an
// invalid segment, whatever reads the blocks. Never reads beyond the segment and kSegmentPadding bytes after it.
bool find_range(std::span<const std::byte> segment, int blocks, int first, int count, const SegmentKernels& kernels,
                SegmentScratch& scratch, SegmentRange& range);

// Decodes blocks first ... first + count - 1 of a segment of `blocks` blocks to `out` (count, 8, 8), aligned to 64
// bytes. Returns false for an invalid segment. Never reads beyond the segment and kSegmentPadding bytes after it.
bool read_segment(std::span<const std::byte> segment, int blocks, int first, int count, const SegmentKernels& kernels,
                  SegmentScratch& scratch, std::int16_t* out);

}  // namespace stoker
