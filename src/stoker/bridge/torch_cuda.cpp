// The library is found by the run path: beside the engine, or where the package was installed.
#include "stoker/bridge/torch_cuda.h"

#include <dlfcn.h>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {

TorchCuda& torch_cuda() {
    if (const std::string why_not = load_torch_cuda(); !why_not.empty()) {
        throw Unsupported({.where = "device", .expected = "a LibTorch with CUDA", .got = why_not});
    }
    void* library = dlopen("libstoker_torch_cuda.so", RTLD_NOW | RTLD_LOCAL);  // never closed
    void* entry = library == nullptr ? nullptr : dlsym(library, "stoker_torch_cuda");
    if (entry == nullptr) {
        throw Unsupported({.where = "device",
                           .expected = "libstoker_torch_cuda.so",
                           .got = dlerror(),
                           .hint = "it is built where LibTorch's wheel comes with CUDA's headers"});
    }
    return *reinterpret_cast<TorchCuda* (*)()>(entry)();
}

}  // namespace stoker
