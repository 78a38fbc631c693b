// dct_pixels on the device: a record's coefficients travel packed, and become pixels there.
#pragma once

#include "stoker/codecs/dct/dct_pixels.h"

namespace stoker {

// True if this build has the kernels for the current device.
bool dct_pixels_cuda_works();

// The bits of `dct_pixels`; all addresses are the device's. The kernels trust the crops, which DctCropper checks.
// `stream` is a cudaStream_t; the function returns when the work is queued. Throws InvalidArgument, CudaError if a
// launch fails, Unsupported in a build without CUDA.
void dct_pixels_cuda(const DctCropBatch& batch, void* stream);

}  // namespace stoker
