// Links the CUDA runtime statically. It shares the primary context with LibTorch's runtime, so memory pinned here is
// pinned for LibTorch's copies too.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "stoker/base/caching_allocator.h"
#include "stoker/base/error.h"
#include "stoker/cuda/cuda_device.h"

namespace stoker {
namespace {

class PinnedAllocator final : public Allocator {
  public:
    explicit PinnedAllocator(int device) : device_(device) {}

    std::byte* allocate(std::size_t bytes) override {
        void* data = nullptr;
        // Without this a worker thread would open a second context, on device 0.
        cudaError_t status = cudaSetDevice(device_);
        status = status != cudaSuccess ? status : cudaHostAlloc(&data, bytes == 0 ? 1 : bytes, cudaHostAllocPortable);
        if (status != cudaSuccess) {
            throw CudaError({.where = "pinned memory",
                             .expected = fmt::format("{} bytes", bytes),
                             .got = cudaGetErrorString(status),
                             .hint = "use a smaller batch_size or prefetch"});
        }
        return static_cast<std::byte*>(data);
    }
    void deallocate(std::byte* data, std::size_t /*bytes*/) noexcept override { cudaFreeHost(data); }
    bool pinned() const override { return true; }

  private:
    int device_;
};

// cudaFreeHost waits for the device, and the training thread may hold a batch's last tensor: so blocks are kept.
struct KeptPinnedMemory {
    explicit KeptPinnedMemory(int device) : pinned(device) {}

    PinnedAllocator pinned;
    CachingAllocator kept{pinned};
};

}  // namespace

bool cuda_built() {
    return true;
}

std::vector<CudaDevice> cuda_devices() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        return {};  // no driver, or one that does not fit; `stoker doctor` says which
    }
    std::vector<CudaDevice> devices;
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp properties{};
        if (cudaGetDeviceProperties(&properties, i) == cudaSuccess) {
            devices.push_back({properties.name, properties.major, properties.minor, properties.totalGlobalMem});
        }
    }
    return devices;
}

Allocator& pinned_allocator(int device) {
    static std::mutex mutex;
    static std::map<int, KeptPinnedMemory> allocators;  // never removed: batches point to them
    const std::lock_guard lock(mutex);
    return allocators.try_emplace(device, device).first->second.kept;
}

}  // namespace stoker
