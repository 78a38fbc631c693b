// Replaces cuda.cpp if nvcc was not found.
#include "stoker/base/error.h"
#include "stoker/cuda/cuda_device.h"

namespace stoker {

bool cuda_built() {
    return false;
}

std::vector<CudaDevice> cuda_devices() {
    return {};
}

Allocator& pinned_allocator(int /*device*/) {
    throw Unsupported({.where = "pinned memory",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use device = \"cpu\""});
}

}  // namespace stoker
