// That the library for CUDA was built to fit LibTorch's, which opening it tells without a device, too.
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
