// The inner loops from a segment's bits and nibbles (dct_segment.h) to blocks, once per instruction set. Every set
// gives the same bits, whatever the bytes are. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

// Readable bytes that every segment must have behind it.
inline constexpr std::size_t kSegmentPadding = 64;

// A block's mask of `length` bytes, at most 8.
inline std::uint64_t load_mask(const std::uint8_t* from, std::size_t length) {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < length; ++i) {
        mask |= std::uint64_t{from[i]} << (8 * i);
    }
    return mask;
}

struct SegmentKernels {
    const char* name;  // plain, avx2, avx512

    // `count` nibbles to bytes; gives back whether none is above 8. Writes up to 127 bytes beyond `count`.
    bool (*unpack_lengths)(const std::uint8_t* nibbles, std::size_t count, std::uint8_t* out);
    // These three read up to 64 bytes beyond their last.
    std::size_t (*sum)(const std::uint8_t* bytes, std::size_t count);
    std::size_t (*count_bits)(const std::uint8_t* bytes, std::size_t count);
    std::size_t (*count_zeros)(const std::uint8_t* nibbles, std::size_t count);  // nibbles that are 0
    // `count` values from the nibble `first` on to bytes, a 0 replaced by the next of `escapes`; gives back the
    // escapes used. Reads up to kSegmentPadding bytes beyond either, writes up to 64 bytes before `out` and
    // 127 beyond `count`.
    std::size_t (*unpack)(const std::uint8_t* nibbles, std::size_t first, std::size_t count, const std::int8_t* escapes,
                          std::int8_t* out);
    // The blocks (count, 8, 8) from their mask lengths, masks, values and DC; `starts` is where each block's values
    // begin. Reads up to 64 bytes beyond.
    void (*expand)(const std::uint8_t* lengths, const std::uint8_t* masks, const std::int8_t* values,
                   const std::int16_t* dc, int count, std::uint32_t* starts, std::int16_t* out);
};

extern const SegmentKernels kPlainSegmentKernels;
extern const SegmentKernels kAvx2SegmentKernels;
extern const SegmentKernels kAvx512SegmentKernels;
std::span<const SegmentKernels> segment_kernels();  // that this processor runs, slowest first
const SegmentKernels& best_segment_kernels();

}  // namespace stoker
