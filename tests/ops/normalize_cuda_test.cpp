// normalize_cuda compared with the CPU, bit for bit. The device can address page-locked memory, and the test waits for
// it through the driver's library, so it needs no CUDA header.
#include "stoker/ops/normalize_cuda.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <vector>

#include "ops/normalize_reference.h"
#include "ops/support.h"
#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/cuda/cuda_device.h"

namespace stoker {
namespace {

// Calls cuCtxSynchronize for the context that the runtime made current.
bool wait_for_device() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto wait = driver == nullptr ? nullptr : reinterpret_cast<int (*)()>(::dlsym(driver, "cuCtxSynchronize"));
    return wait != nullptr && wait() == 0;
}

TEST(NormalizeCuda, GivesTheBitsOfTheCpu) {
    if (!cuda_built()) {
        GTEST_SKIP() << "built without CUDA";
    }
    if (cuda_devices().empty()) {
        GTEST_SKIP() << "no CUDA device";
    }
    constexpr int kImages = 3;
    for (int channels = 1; channels <= 4; ++channels) {
        for (const auto& [height, width] : {std::pair{1, 1}, {28, 28}, {17, 33}, {224, 224}}) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                const Image batch = testing::noise(kImages * height, width, channels);
                const std::size_t each = batch.bytes() / kImages;
                Buffer pixels(batch.bytes(), pinned_allocator(0));
                Buffer floats(batch.bytes() * sizeof(float), pinned_allocator(0));
                std::memcpy(pixels.data(), batch.view().data, batch.bytes());
                auto* out = reinterpret_cast<float*>(floats.data());
                normalize_cuda(reinterpret_cast<const std::uint8_t*>(pixels.data()), kImages, height, width, channels,
                               kImageNetNormalize, layout, out, nullptr);
                ASSERT_TRUE(wait_for_device());
                std::vector<float> expected(each);
                for (int i = 0; i < kImages; ++i) {
                    testing::normalize_with(best_kernels(), batch.view().crop({i * height, 0, height, width}),
                                            kImageNetNormalize, layout, expected.data());
                    const float* image = out + static_cast<std::size_t>(i) * each;
                    ASSERT_EQ(std::vector<float>(image, image + each), expected) << height << "x" << width;
                }
            }
        }
    }
}

TEST(NormalizeCuda, ThrowsUnsupportedWithoutCuda) {
    if (cuda_built()) {
        GTEST_SKIP() << "built with CUDA";
    }
    EXPECT_THROW(normalize_cuda(nullptr, 1, 1, 1, 3, {}, Layout::chw, nullptr, nullptr), Unsupported);
}

TEST(NormalizeCuda, RefusesFiveChannelsAndTakesAnEmptyBatch) {
    if (!cuda_built()) {
        GTEST_SKIP() << "built without CUDA";
    }
    EXPECT_THROW(normalize_cuda(nullptr, 1, 1, 1, 5, {}, Layout::chw, nullptr, nullptr), InvalidArgument);
    normalize_cuda(nullptr, 0, 28, 28, 1, {}, Layout::chw, nullptr, nullptr);
}

}  // namespace
}  // namespace stoker
