// LibTorch decides once for a process whether it has CUDA, when it is first asked. load_torch_cuda() has to come before
// that, so this test runs in a separate process.
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <typeinfo>

#include "stoker/bridge/device.h"
#include "stoker/bridge/device_memory.h"

namespace stoker {
namespace {

TEST(LoadTorchCudaDeathTest, ComesBeforeLibTorchDecidesThatItHasNone) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts the program anew for the statement
    const auto load = [] {
        const std::string why_not = load_torch_cuda();
        if (why_not.find("cannot open shared object file") != std::string::npos) {
            std::exit(2);
        }
        const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
        std::exit(why_not.empty() && typeid(hooks) != typeid(at::CUDAHooksInterface) ? 0 : 1);
    };
    EXPECT_EXIT(
        load(), [](int status) { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2); },
        "");
}

// A run may ask for room before its first tensor; LibTorch's allocator knows no device until CUDA is initialised.
TEST(LoadTorchCudaDeathTest, ADevicesMemoryIsKnownBeforeItsFirstTensor) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto ask = [] {
        const at::Device device = pick_device("auto");
        if (!device.is_cuda()) {
            std::exit(2);
        }
        std::exit(free_device_bytes(device).value_or(0) > 0 ? 0 : 1);
    };
    EXPECT_EXIT(
        ask(), [](int status) { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2); },
        "");
}

}  // namespace
}  // namespace stoker
