// The inner loops of a strong shrink of images of three channels. Both passes multiply bytes by bytes, four at a time.
// Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stoker/ops/shrink_filter.h"

namespace stoker {

// A quad row holds four rows, interleaved value by value: (values, 4).
inline constexpr int kShrinkRows = 4;
inline constexpr std::size_t kShrinkSlack = 128;    // bytes after a quad row that the kernels read or write
inline constexpr std::size_t kShrinkOverread = 16;  // bytes after an input row that they read, at most

// A weight of 22 bits is the sum of digit[d] << 7 d; digits are of -64 to 63.
inline constexpr int kShrinkDigits = 4;
inline constexpr int kShrinkDigitBits = 7;

// The quad rows of one output row, and the four weights for each.
struct ShrinkTaps {
    const std::uint8_t* const* quads;
    const std::int8_t (*digits)[kShrinkDigits][kShrinkRows];
    int count;
    int used_digits;  // 3, or 4 if a weight needs it
};

struct ShrinkKernels {
    // The horizontal pass: four rows, from the filter's first tap on, to a quad row.
    void (*filter_rows)(const std::uint8_t* const (&rows)[kShrinkRows], const ShrinkFilter& filter, std::uint8_t* out);
    // The vertical pass: `values` values of one output row.
    void (*sum_quads)(const ShrinkTaps& taps, std::size_t values, std::uint8_t* out);
};

}  // namespace stoker
