// normalize on the device: copying a batch as bytes costs a quarter of copying it as floats.
#pragma once

#include <cstdint>

#include "stoker/ops/normalize.h"

namespace stoker {

// `images` (N, H, W, C) uint8 to `out` float32 (N, C, H, W) or (N, H, W, C), C = 1..4, both on the device. The same
// bits as on the CPU. `stream` is a cudaStream_t; the function returns when the work is queued. Throws InvalidArgument,
// CudaError if the launch fails, Unsupported in a build without CUDA.
void normalize_cuda(const std::uint8_t* images, int n, int h, int w, int c, const Normalize& op, Layout layout,
                    float* out, void* stream);

}  // namespace stoker
