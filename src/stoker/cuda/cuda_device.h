// What CUDA offers below LibTorch: is there a device, and page-locked memory for batch slots.
// cuda.cpp is built where nvcc is found, no_cuda.cpp elsewhere; callers see one interface.
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

// True where this build has CUDA sources.
bool cuda_built();

// The devices a driver offers; empty without a driver or in a build without CUDA.
std::vector<CudaDevice> cuda_devices();

// The allocator of page-locked host memory, made through the context of `device`. Throws Unsupported in a
// build without CUDA; its allocate() throws CudaError where the driver refuses.
Allocator& pinned_allocator(int device);

}  // namespace stoker
