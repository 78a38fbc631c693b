// normalize on the device: copying a batch as bytes costs a quarter of copying it as floats.
#pragma once

#include <cstdint>

#include "stoker/base/dtype.h"
#include "stoker/ops/normalize.h"

namespace stoker {

// A batch of images (N, H, W, C), C = 1..4, and where its floats go, both on the device.
struct NormalizeBatch {
    const std::uint8_t* images = nullptr;
    int n = 0;
    int h = 0;
    int w = 0;
    int c = 0;
    NormalizeFactors factors = {};
    void* out = nullptr;
    DType dtype = DType::float32;  // of `out`: float32, float16 or bfloat16
    Layout layout = Layout::chw;   // of `out`: (N, C, H, W) or (N, H, W, C)
};

// True if this build has the kernel for the current device.
bool normalize_cuda_works();

// The same bits as on the CPU: a multiplication and an addition in float32, then rounded to nearest, ties to even.
// `stream` is a cudaStream_t; the function returns when the work is queued. Throws InvalidArgument, CudaError if the
// launch fails, Unsupported in a build without CUDA.
void normalize_cuda(const NormalizeBatch& batch, void* stream);

}  // namespace stoker
