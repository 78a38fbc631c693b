// Whether a kernel runs on the current device. A build has code for some architectures, and a driver may be too old for
// this build's runtime. For .cu files.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

namespace stoker {

// CUDA is asked once for each device.
template <typename Kernel>
bool kernel_works(Kernel* kernel) {
    static std::mutex mutex;
    static std::map<std::pair<int, Kernel*>, bool> works;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) {
        cudaGetLastError();  // clears the error
        return false;
    }
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = works.try_emplace({device, kernel}, false);
    if (is_new) {
        cudaFuncAttributes attributes{};
        entry->second = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess;
        cudaGetLastError();
    }
    return entry->second;
}

}  // namespace stoker
