// The kernels of resize_normalize for AVX-512 with VNNI and VBMI, and the layout of the rows between its passes.
// Internal to ops/: resize_vnni.cpp calls them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stoker/base/dtype.h"
#include "stoker/ops/vnni_filter.h"

namespace stoker {

inline constexpr int kQuadRows = 4;     // a quad row: four rows after the horizontal pass, interleaved byte by byte
inline constexpr int kQuadVector = 64;  // bytes of a vector: 16 values of four rows

// Four rows to one quad row: (C, blocks, 16, kQuadRows) as planes, (blocks, 16 C, kQuadRows) interleaved.
using FilterRows = void (*)(const std::uint8_t* const (&rows)[kQuadRows], const VnniFilter& table, bool planes,
                            std::byte* out);
// `clips`: the sums may leave 0 to 255.
FilterRows filter_rows_for(int channels, int quads, bool clips);

// The inputs of one output row.
struct QuadTaps {
    const std::byte* const* quads;           // the quad rows
    const std::uint32_t (*digits)[kDigits];  // the four weights of each quad row
    int count;
};

// Scale and bias of 16 adjacent values, then of the next 16, and so on. They repeat after `period` vectors.
struct LaneFactors {
    const float* scale;  // aligned to kQuadVector
    const float* bias;
    int period;
};

// The vertical pass, normalisation and conversion of `values` values, beginning at byte `at` of each quad row.
// `streamed` requires an `out` aligned to kQuadVector.
using WriteRun = void (*)(const QuadTaps& taps, std::size_t at, std::size_t values, const LaneFactors& factors,
                          std::byte* out, bool streamed);
WriteRun write_run_for(DType dtype, int quads, bool clips);

// Makes earlier streamed writes visible to other threads before later writes.
void fence_streamed();

}  // namespace stoker
