// assemble on the device, from images that are already in its memory.
#pragma once

#include "stoker/ops/assemble.h"

namespace stoker {

// True if this build has the kernel for the current device.
bool assemble_cuda_works();

// The bits of `assemble`, for draws that assemble_fits; all addresses are the device's. `stream` is a cudaStream_t; the
// function returns when the work is queued. Throws InvalidArgument, CudaError if the launch fails, Unsupported in a
// build without CUDA.
void assemble_cuda(const AssembleBatch& batch, void* stream);

}  // namespace stoker
