// gather on the device, from images that are already in its memory: a batch costs 104 bytes a sample over PCIe.
#pragma once

#include "stoker/ops/gather.h"

namespace stoker {

// True if this build has the kernels for the current device.
bool gather_cuda_works();

// The bits of `gather`; all addresses are the device's. `stream` is a cudaStream_t; the function returns when the work
// is queued. Throws InvalidArgument, CudaError if the launch fails, Unsupported in a build without CUDA.
void gather_cuda(const GatherBatch& batch, void* stream);

}  // namespace stoker
