// The inner loops of the image ops, once per instruction set. Every set computes the same bits, so
// which one runs is a matter of speed alone. Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/ops/normalize.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {

// The horizontal pass works on this many rows at once, turned on their side: (columns, C, kLanes).
inline constexpr int kLanes = 16;

// The arguments of resize_normalize, checked.
struct ResizeJob {
    ConstImageView from;
    Box window;
    ResizeGeometry geometry;
    NormalizeFactors factors;
    PixelTarget target;
};

struct OpKernels {
    const char* name;  // plain, avx2, avx512, avx512_vnni

    // `columns` (inputs from axis.taps.front().first on, C, kLanes) to `out` (axis.taps.size(), C, kLanes).
    void (*resize_columns)(const std::uint8_t* columns, const ResizeAxis& axis, int channels, std::uint8_t* out);

    // out[i] = sum over k < count of weights[k] * rows[k][i], rounded, for i < bytes.
    void (*resize_rows)(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::uint8_t* out,
                        std::size_t bytes);

    // `pixels` (count, C) to out[c * plane + i] (chw) or out[i * C + c] (hwc).
    void (*normalize)(const std::uint8_t* pixels, std::size_t count, int channels, const NormalizeFactors& factors,
                      Layout layout, float* out, std::size_t plane);

    // Floats to float16 or bfloat16.
    void (*narrow)(const float* values, std::size_t count, DType dtype, std::uint16_t* out);

    // resize_normalize in one pass that knows no rows; false where this set has none for such a geometry. Null: for
    // none.
    bool (*resize_normalize)(const ResizeJob& job, ResizeScratch& scratch);
};

extern const OpKernels kPlainKernels;

// The parts of the set avx512_vnni that are its own; the rest are avx512's. Only where the processor has VNNI and VBMI.
bool resize_normalize_vnni(const ResizeJob& job, ResizeScratch& scratch);
bool has_vnni();

// The sets for vector instructions that this processor has, slowest first; empty off x86-64.
std::vector<OpKernels> x86_kernels();

// All sets that this processor runs, slowest first, and the one that the ops use: the last.
std::span<const OpKernels> op_kernels();
const OpKernels& best_kernels();

// resize_part and normalize with a given set, for tests and benchmarks.
void resize_with(const OpKernels& kernels, ConstImageView from, ImageSize full, const Box& part, ImageView to,
                 ResizeScratch& scratch);
void resize_normalize_with(const OpKernels& kernels, ConstImageView from, const Box& window,
                           const ResizeGeometry& geometry, const NormalizeFactors& factors, const PixelTarget& target,
                           ResizeScratch& scratch);
void normalize_with(const OpKernels& kernels, ConstImageView image, const Normalize& op, Layout layout, float* out);

}  // namespace stoker
