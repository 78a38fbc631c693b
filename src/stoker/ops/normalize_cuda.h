// normalize() on the device, for batches whose bytes are cheaper to copy than their floats.
#pragma once

#include <cstdint>

#include "stoker/ops/normalize.h"

namespace stoker {

// `images` (N, H, W, C) uint8 to `out` float32 (N, C, H, W) or (N, H, W, C), C = 1..4, both on the
// device; the same bits as normalize(). `stream` is a cudaStream_t; returns once the work is queued.
// Throws CudaError where the launch fails, Unsupported in a build without CUDA.
void normalize_cuda(const std::uint8_t* images, int n, int h, int w, int c, const Normalize& op, Layout layout,
                    float* out, void* stream);

}  // namespace stoker
