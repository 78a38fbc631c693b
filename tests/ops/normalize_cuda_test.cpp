// normalize_cuda compared with the CPU, bit for bit. The device can address page-locked memory, and the test waits for
// it through the driver's library, so it needs no CUDA header.
#include "stoker/ops/normalize_cuda.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/support.h"
#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/cuda/cuda_device.h"
#include "stoker/ops/resize_normalize.h"

namespace stoker {
namespace {

// Calls cuCtxSynchronize for the context that the runtime made current.
bool wait_for_device() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    const auto wait = driver == nullptr ? nullptr : reinterpret_cast<int (*)()>(::dlsym(driver, "cuCtxSynchronize"));
    return wait != nullptr && wait() == 0;
}

class NormalizeCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!cuda_built()) {
            GTEST_SKIP() << "built without CUDA";
        }
    }
};

TEST_F(NormalizeCuda, GivesTheBitsOfTheCpu) {
    if (cuda_devices().empty()) {
        GTEST_SKIP() << "no CUDA device";
    }
    ASSERT_TRUE(normalize_cuda_works());
    constexpr int kImages = 3;
    const NormalizeFactors factors = normalize_factors(kImageNetNormalize);
    for (int channels = 1; channels <= 4; ++channels) {
        for (const auto& [height, width] : {std::pair{1, 1}, {28, 28}, {17, 33}, {224, 224}}) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
                    const Image batch = testing::noise(kImages * height, width, channels);
                    const std::size_t each = batch.bytes() / kImages * item_size(dtype);
                    Buffer pixels(batch.bytes(), pinned_allocator(0));
                    Buffer out(each * kImages, pinned_allocator(0));
                    std::memcpy(pixels.data(), batch.view().data, batch.bytes());
                    normalize_cuda({.images = reinterpret_cast<const std::uint8_t*>(pixels.data()),
                                    .n = kImages,
                                    .h = height,
                                    .w = width,
                                    .c = channels,
                                    .factors = factors,
                                    .out = out.data(),
                                    .dtype = dtype,
                                    .layout = layout},
                                   nullptr);
                    ASSERT_TRUE(wait_for_device());
                    Buffer expected(each);
                    for (int i = 0; i < kImages; ++i) {
                        const ConstImageView image = batch.view().crop({i * height, 0, height, width});
                        ResizeScratch scratch;
                        resize_normalize(image, {0, 0, height, width},
                                         {{height, width}, {height, width}, {0, 0, height, width}, false}, factors,
                                         {.data = expected.data(), .dtype = dtype, .layout = layout}, scratch);
                        const std::byte* own = out.data() + static_cast<std::size_t>(i) * each;
                        ASSERT_EQ(std::memcmp(own, expected.data(), each), 0)
                            << channels << " channels of " << height << "x" << width << " to " << dtype_name(dtype);
                    }
                }
            }
        }
    }
}

TEST_F(NormalizeCuda, RefusesFiveChannelsAndBytesAndTakesAnEmptyBatch) {
    EXPECT_THROW(normalize_cuda({.n = 1, .h = 1, .w = 1, .c = 5}, nullptr), InvalidArgument);
    EXPECT_THROW(normalize_cuda({.n = 1, .h = 1, .w = 1, .c = 3, .dtype = DType::uint8}, nullptr), InvalidArgument);
    normalize_cuda({.h = 28, .w = 28, .c = 1}, nullptr);
}

TEST(NormalizeWithoutCuda, ThrowsUnsupported) {
    if (cuda_built()) {
        GTEST_SKIP() << "built with CUDA";
    }
    EXPECT_FALSE(normalize_cuda_works());
    EXPECT_THROW(normalize_cuda({.n = 1, .h = 1, .w = 1, .c = 3}, nullptr), Unsupported);
}

}  // namespace
}  // namespace stoker
