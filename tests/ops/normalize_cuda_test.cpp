// What normalize_cuda refuses. tests/bridge/normalize_cuda_test.cpp compares its pixels with the CPU's.
#include "stoker/ops/normalize_cuda.h"

#include <gtest/gtest.h>

#include "stoker/base/cuda_device.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

class NormalizeCuda : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!cuda_built()) {
            GTEST_SKIP() << "built without CUDA";
        }
    }
};

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
