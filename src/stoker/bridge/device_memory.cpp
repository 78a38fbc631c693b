// LibTorch's runtime is asked, not that of this build: a build without nvcc has none, and one that is newer than the
// driver finds no device.
#include "stoker/bridge/device_memory.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "stoker/base/caching_allocator.h"
#include "stoker/base/error.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

class PinnedAllocator final : public Allocator {
  public:
    PinnedAllocator(TorchCuda& library, const at::Device& device) : library_(library), device_(device) {}

    std::byte* allocate(std::size_t bytes) override {
        try {
            return library_.allocate_pinned(device_, bytes);
        } catch (const c10::Error& error) {
            throw CudaError({.where = "pinned memory",
                             .expected = fmt::format("{} bytes", bytes),
                             .got = first_line_of(error),
                             .hint = "use a smaller batch_size or prefetch"});
        }
    }
    void deallocate(std::byte* data, std::size_t /*bytes*/) noexcept override { library_.free_pinned(data); }
    bool pinned() const override { return true; }

  private:
    TorchCuda& library_;
    at::Device device_;
};

// The release of pinned memory waits for the device, and the training thread may hold a batch's last tensor: so blocks
// are kept.
struct KeptPinnedMemory {
    KeptPinnedMemory(TorchCuda& library, const at::Device& device) : pinned(library, device) {}

    PinnedAllocator pinned;
    CachingAllocator kept{pinned};
};

}  // namespace

std::optional<CudaDevice> device_properties(const at::Device& device) {
    TorchCuda* const library = device.is_cuda() ? find_torch_cuda() : nullptr;
    return library == nullptr ? std::nullopt : library->properties(device);
}

std::optional<DeviceMemory> device_memory(const at::Device& device) {
    TorchCuda* const library = device.is_cuda() ? find_torch_cuda() : nullptr;
    return library == nullptr ? std::nullopt : std::optional(library->memory(device));
}

std::optional<std::int64_t> free_device_bytes(const at::Device& device) {
    TorchCuda* const library = device.is_cuda() ? find_torch_cuda() : nullptr;
    return library == nullptr ? std::nullopt : std::optional(library->free_bytes(device));
}

Allocator* pinned_memory(const at::Device& device) {
    if (!device_properties(device)) {
        return nullptr;
    }
    static std::mutex mutex;
    // Never freed: batches point to them, and the device may be gone before they are.
    static auto& allocators = *new std::map<std::pair<TorchCuda*, int>, KeptPinnedMemory>();
    TorchCuda& library = *find_torch_cuda();
    const std::lock_guard lock(mutex);
    return &allocators.try_emplace({&library, device.index()}, library, device).first->second.kept;
}

}  // namespace stoker
