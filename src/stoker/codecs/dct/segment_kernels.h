// The inner loops from a segment's bits and nibbles (dct_segment.h) to blocks, one set for each instruction set. All
// sets return the same results, also for damaged data. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

// Readable bytes that must follow every segment.
inline constexpr std::size_t kSegmentPadding = 64;

// Loads a block's mask of `length` bytes, at most 8.
inline std::uint64_t load_mask(const std::uint8_t* from, std::size_t length) {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < length; ++i) {
        mask |= std::uint64_t{from[i]} << (8 * i);
    }
    return mask;
}

// The byte, -128 as an int8, that stands for a number stored as int16 elsewhere.
inline constexpr std::uint8_t kWideMarker = 0x80;

struct SegmentKernels {
    const char* name;  // plain, avx2, avx512

    // Unpacks `count` nibbles to bytes; returns true if none exceeds 8. Writes up to 127 bytes beyond `count`.
    bool (*unpack_lengths)(const std::uint8_t* nibbles, std::size_t count, std::uint8_t* out);
    // These four read up to 64 bytes beyond the end.
    std::size_t (*sum)(const std::uint8_t* bytes, std::size_t count);
    std::size_t (*count_bits)(const std::uint8_t* bytes, std::size_t count);
    std::size_t (*count_zeros)(const std::uint8_t* nibbles, std::size_t count);  // nibbles that are 0
    std::size_t (*count_markers)(const std::uint8_t* bytes, std::size_t count);  // bytes that are kWideMarker
    // Unpacks `count` values, beginning at nibble `first`, to bytes, and replaces each 0 with the next escape; returns
    // the number of escapes used. Reads up to kSegmentPadding bytes beyond both inputs; writes up to 64 bytes before
    // `out` and 127 beyond `count`.
    std::size_t (*unpack)(const std::uint8_t* nibbles, std::size_t first, std::size_t count, const std::int8_t* escapes,
                          std::int8_t* out);
    // Builds the blocks (count, 8, 8) from their mask lengths, masks, values and DC, and sets `starts` to the index of
    // each block's first value. Reads up to 64 bytes beyond the inputs.
    void (*expand)(const std::uint8_t* lengths, const std::uint8_t* masks, const std::int8_t* values,
                   const std::int16_t* dc, int count, std::uint32_t* starts, std::int16_t* out);
};

extern const SegmentKernels kPlainSegmentKernels;
extern const SegmentKernels kAvx2SegmentKernels;
extern const SegmentKernels kAvx512SegmentKernels;

// All sets that this processor supports, slowest first. best_segment_kernels() is the last.
std::span<const SegmentKernels> segment_kernels();
const SegmentKernels& best_segment_kernels();

}  // namespace stoker
