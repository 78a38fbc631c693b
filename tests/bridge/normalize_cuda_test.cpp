// normalize_cuda compared with the CPU, bit for bit. The device can address page-locked memory, and the test waits for
// it through the driver's library, so it needs no CUDA header.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/normalize_cases.h"
#include "stoker/base/buffer.h"
#include "stoker/bridge/device_memory.h"

namespace stoker {
namespace {

// Calls cuCtxSynchronize for the context that the runtime made current.
bool wait_for_device() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto wait = driver == nullptr ? nullptr : reinterpret_cast<int (*)()>(::dlsym(driver, "cuCtxSynchronize"));
    return wait != nullptr && wait() == 0;
}

TEST(NormalizePinnedCuda, GivesTheBitsOfTheCpu) {
    Allocator* const pinned = pinned_memory({at::kCUDA, 0});
    if (pinned == nullptr || !cuda_built()) {
        GTEST_SKIP() << "no CUDA device, or built without nvcc";
    }
    ASSERT_TRUE(normalize_cuda_works());
    constexpr std::pair<int, int> kSizes[] = {{1, 1}, {28, 28}, {17, 33}, {224, 224}};
    testing::for_each_normalize_case(kSizes, [&](const testing::NormalizeCase& one) {
        const std::vector<std::byte> expected = one.expected();
        Buffer pixels(one.batch.bytes(), *pinned);
        Buffer out(expected.size(), *pinned);
        std::memcpy(pixels.data(), one.batch.view().data, one.batch.bytes());
        one.run(reinterpret_cast<const std::uint8_t*>(pixels.data()), out.data());
        ASSERT_TRUE(wait_for_device());
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << one.name();
    });
}

}  // namespace
}  // namespace stoker
