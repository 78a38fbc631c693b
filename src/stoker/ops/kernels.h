// The inner loops of resize and normalize, one set for each instruction set. All sets compute the same bits and differ
// only in speed. Internal to ops/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/ops/normalize.h"
#include "stoker/ops/resize.h"
#include "stoker/ops/resize_normalize.h"
#include "stoker/ops/shrink_kernels.h"

namespace stoker {

// The horizontal pass processes this many rows at once, transposed: (columns, C, kLanes).
inline constexpr int kLanes = 16;

// The checked arguments of resize_normalize.
struct ResizeJob {
    ConstImageView from;
    Box window;
    ResizeGeometry geometry;
    NormalizeFactors factors;
    PixelTarget target;
};

// A row of three channels, (count, 3), and its place in three planes that are `plane` items apart.
struct PlaneRow {
    const std::uint8_t* pixels;
    std::size_t count;
    const NormalizeFactors* factors;  // not for uint8
    DType dtype;
    bool flip;
    std::byte* out;
    std::size_t plane;
};

struct OpKernels {
    const char* name;  // plain, avx2, avx512, avx512_vnni

    // The horizontal pass: `columns` (inputs, beginning at axis.taps.front().first, C, kLanes) to `out`
    // (axis.taps.size(), C, kLanes).
    void (*resize_columns)(const std::uint8_t* columns, const ResizeAxis& axis, int channels, std::uint8_t* out);

    // The vertical pass: out[i] = sum over k < count of weights[k] * rows[k][i], rounded, for i < bytes.
    void (*resize_rows)(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::uint8_t* out,
                        std::size_t bytes);

    // `pixels` (count, C) to out[c * plane + i] (chw) or out[i * C + c] (hwc).
    void (*normalize)(const std::uint8_t* pixels, std::size_t count, int channels, const NormalizeFactors& factors,
                      Layout layout, float* out, std::size_t plane);

    // Floats to float16 or bfloat16.
    void (*to_16bit)(const float* values, std::size_t count, DType dtype, std::uint16_t* out);

    // resize_normalize without intermediate rows of pixels. Returns false if the set does not support the geometry.
    // Null if the set lacks this function.
    bool (*resize_normalize)(const ResizeJob& job, ResizeScratch& scratch);

    // Flips, normalises and stores a row in one pass. Returns false if the row is too short. Null if the set lacks it.
    bool (*write_planes)(const PlaneRow& row);

    // Both passes of a strong shrink. Null if the set lacks them.
    const ShrinkKernels* shrink;
};

extern const OpKernels kPlainKernels;
extern const ShrinkKernels kShrinkAvx2;
bool write_planes_avx2(const PlaneRow& row);

// The set avx512_vnni is avx512 with this resize_normalize. Call it only if has_vnni().
bool resize_normalize_vnni(const ResizeJob& job, ResizeScratch& scratch);
bool has_vnni();

// The vector sets that this processor supports, slowest first. Only on x86-64.
std::vector<OpKernels> x86_kernels();

// All sets that this processor supports, slowest first. best_kernels() is the last.
std::span<const OpKernels> op_kernels();
const OpKernels& best_kernels();

// The public ops with a given set of kernels. resize_with returns the pixels that resizing `from` to `full` and then
// cropping `part` would give, for the cost of `part` alone; `to` has the size of `part`, which lies within `full`.
void resize_with(const OpKernels& kernels, ConstImageView from, ImageSize full, const Box& part, ImageView to,
                 ResizeScratch& scratch, Interpolation interpolation = Interpolation::bilinear);
void resize_normalize_with(const OpKernels& kernels, ConstImageView from, const Box& window,
                           const ResizeGeometry& geometry, const NormalizeFactors& factors, const PixelTarget& target,
                           ResizeScratch& scratch);

}  // namespace stoker
