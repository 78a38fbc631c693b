// That LibTorch learns of its CUDA library before it decides for good that there is none. One test, in a file of
// its own: it tells only in a process where nobody has asked about CUDA before.
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <typeinfo>

#include "stoker/bridge/device.h"

namespace stoker {
namespace {

TEST(LoadTorchCuda, ComesBeforeLibTorchDecidesThatItHasNone) {
    const std::string why_not = load_torch_cuda();
    if (why_not.find("cannot open shared object file") != std::string::npos) {
        GTEST_SKIP() << why_not;
    }
    ASSERT_EQ(why_not, "");
    const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
    EXPECT_NE(typeid(hooks), typeid(at::CUDAHooksInterface)) << "the answer of a LibTorch without CUDA";
}

}  // namespace
}  // namespace stoker
