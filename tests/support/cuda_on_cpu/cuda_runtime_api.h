// In place of CUDA's header of this name: what launches need, for one device that always works.
#pragma once

#include "support/cuda_on_cpu/device_code.h"

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess };
struct cudaFuncAttributes {};

inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t /*error*/) {
    return "no error";
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* /*attributes*/, Kernel /*kernel*/) {
    return cudaSuccess;
}
