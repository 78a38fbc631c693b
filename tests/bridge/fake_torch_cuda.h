// Stands in for the library that links LibTorch's CUDA (torch_cuda.h): devices as a test wants them.
#pragma once

#include <c10/util/Exception.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_cuda.h"

namespace stoker::testing {

class FakeTorchCuda final : public TorchCuda {
  public:
    std::unique_ptr<DeviceGraphs> make_graphs(const at::Device& /*device*/) override {
        throw Unsupported({.where = "device", .expected = "a graph", .got = "a test's device"});
    }
    DeviceMemory memory(const at::Device& /*device*/) override { return {}; }
    std::int64_t free_bytes(const at::Device& /*device*/) override { return free; }
    std::optional<CudaDevice> properties(const at::Device& device) override {
        const auto index = static_cast<std::size_t>(device.index());
        return index < devices.size() ? std::optional(devices[index]) : std::nullopt;
    }
    std::byte* allocate_pinned(const at::Device& /*device*/, std::size_t bytes) override {
        TORCH_CHECK(pinned.size() < pinned_room, "CUDA error: out of memory");
        return *pinned.insert(static_cast<std::byte*>(std::malloc(bytes))).first;
    }
    void free_pinned(std::byte* data) noexcept override {
        pinned.erase(data);
        std::free(data);
    }
    void set_sync_debug_mode(bool /*error*/) override {}

    std::vector<CudaDevice> devices = {{.name = "a test's GPU", .major = 9, .minor = 0, .memory_bytes = 1 << 30}};
    std::set<std::byte*> pinned;  // not freed, since kept blocks are used again
    std::size_t pinned_room = 100;
    std::int64_t free = 1 << 30;
};

}  // namespace stoker::testing
