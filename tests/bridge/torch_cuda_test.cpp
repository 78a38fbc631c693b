// The library for CUDA fits LibTorch's: opening it shows that, also without a device.
#include "stoker/bridge/torch_cuda.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {
namespace {

TEST(TorchCuda, OpensWhereLibTorchHasCuda) {
    const std::string why_not = load_torch_cuda();
#ifdef STOKER_HAS_TORCH_CUDA
    ASSERT_EQ(why_not, "");
    EXPECT_EQ(&torch_cuda(), &torch_cuda());
#else
    EXPECT_THROW(torch_cuda(), Unsupported);
    GTEST_SKIP() << "built without LibTorch's CUDA headers";
#endif
}

}  // namespace
}  // namespace stoker
