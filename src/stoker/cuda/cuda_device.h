// CUDA without LibTorch: the devices, and page-locked memory for batch slots. cuda.cpp is built if nvcc is found,
// otherwise no_cuda.cpp, which has the same functions.
#pragma once

#include <string>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

struct CudaDevice {
    std::string name;
    int major = 0;  // compute capability
    int minor = 0;
    std::size_t memory_bytes = 0;
};

// True if this build has CUDA sources.
bool cuda_built();

// The devices; empty without a driver or in a build without CUDA.
std::vector<CudaDevice> cuda_devices();

// The allocator of page-locked host memory, allocated in the context of `device`. It keeps freed blocks for later
// requests of the same size. Throws Unsupported in a build without CUDA. Its allocate() throws CudaError if the driver
// refuses.
Allocator& pinned_allocator(int device);

}  // namespace stoker
