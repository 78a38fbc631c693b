// A GPU, and whether this build has kernels for GPUs: cuda_device.cpp is built if nvcc is found, otherwise
// no_cuda_device.cpp.
#pragma once

#include <cstddef>
#include <string>

namespace stoker {

struct CudaDevice {
    std::string name;
    int major = 0;  // compute capability
    int minor = 0;
    std::size_t memory_bytes = 0;
    std::string uuid = {};    // the same for every process that uses it; a MIG partition has its own
    std::string bus_id = {};  // of the board on the host's PCI bus, shared by its partitions: "0000:6b:00"
};

// True if this build has CUDA sources.
bool cuda_built();

}  // namespace stoker
