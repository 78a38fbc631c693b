// The kernels of resize_normalize for AVX-512 with VNNI and VBMI, and the form of the rows between its passes.
// Internal to ops/: resize_quads.cpp drives them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stoker/base/dtype.h"
#include "stoker/ops/lane_table.h"

namespace stoker {

inline constexpr int kQuadRows = 4;     // rows after the horizontal pass that lie byte beside byte: a quad row
inline constexpr int kQuadVector = 64;  // bytes of a group: 16 values of four rows

// Four rows to one quad row: (C, blocks, 16, kQuadRows) as planes, (blocks, 16 C, kQuadRows) interleaved.
using FilterRows = void (*)(const std::uint8_t* const (&rows)[kQuadRows], const LaneTable& table, bool planes,
                            std::byte* out);
FilterRows filter_rows_for(int channels, int quads);

// What one output row is made from.
struct QuadTaps {
    const std::byte* const* quads;           // the quad rows
    const std::uint32_t (*digits)[kDigits];  // of each quad row's four weights
    int count;
};

// The factors of 16 neighbouring values, and the next 16, ...: after `period` times they begin again.
struct LaneFactors {
    const float* scale;  // aligned to kQuadVector
    const float* bias;
    int period;
};

// The vertical pass over `values` values, from byte `at` of each quad row on, and all that comes after it.
// `streamed` needs an `out` aligned to kQuadVector.
using WriteRun = void (*)(const QuadTaps& taps, std::size_t at, std::size_t values, const LaneFactors& factors,
                          std::byte* out, bool streamed);
WriteRun write_run_for(DType dtype, int quads);

// Streamed writes before it are seen by other threads before what comes after it.
void fence_streamed();

}  // namespace stoker
