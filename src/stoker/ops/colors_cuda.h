// colors on the device, on images in its memory: a colour jitter costs the CPU nothing.
#pragma once

#include "stoker/ops/colors.h"

namespace stoker {

// True if this build has the kernel for the current device.
bool colors_cuda_works();

// The bits of `colors`; all addresses are the device's. `stream` is a cudaStream_t; the function returns when the work
// is queued. Throws what require_colors throws, CudaError if the launch fails, Unsupported in a build without CUDA.
void colors_cuda(const ColorsBatch& batch, void* stream);

}  // namespace stoker
