// A GPU that LibTorch's library knows, and the runtime of this build does not: there is none on this machine.
#include "stoker/bridge/device_memory.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "bridge/fake_torch_cuda.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {
namespace {

using testing::FakeTorchCuda;

const at::Device kGpu(at::kCUDA, 0);

TEST(DeviceMemory, SlotsArePinnedWhereLibTorchHasADevice) {
    FakeTorchCuda library;
    const ReplacedTorchCuda replaced(library);
    EXPECT_TRUE(slot_allocator(kGpu, true).pinned());
    EXPECT_FALSE(slot_allocator(kGpu, false).pinned());
    EXPECT_FALSE(slot_allocator(at::kCPU, true).pinned());
    EXPECT_FALSE(slot_allocator({at::kCUDA, 1}, true).pinned()) << "LibTorch lacks this device";
    EXPECT_EQ(&slot_allocator(kGpu, true), &slot_allocator(kGpu, true));
}

TEST(DeviceMemory, PinnedBlocksAreKept) {
    FakeTorchCuda library;
    const ReplacedTorchCuda replaced(library);
    Allocator& pinned = slot_allocator(kGpu, true);
    std::byte* const first = pinned.allocate(100);
    EXPECT_EQ(library.pinned.size(), 1U);
    pinned.deallocate(first, 100);
    EXPECT_EQ(pinned.allocate(100), first);
    EXPECT_EQ(library.pinned.size(), 1U);
    library.pinned_room = 0;
    try {
        pinned.allocate(200);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const CudaError& error) {
        EXPECT_STREQ(error.what(),
                     "[pinned memory] expected 200 bytes, got CUDA error: out of memory; use a smaller "
                     "batch_size or prefetch");
    }
    pinned.deallocate(first, 100);
}

TEST(DeviceMemory, WithoutADeviceThereIsNone) {
    FakeTorchCuda library;
    library.devices.clear();
    const ReplacedTorchCuda replaced(library);
    EXPECT_FALSE(slot_allocator(kGpu, true).pinned());
    EXPECT_FALSE(device_properties(kGpu));
    EXPECT_FALSE(device_properties(at::kCPU));
}

}  // namespace
}  // namespace stoker
