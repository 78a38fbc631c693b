// The library is found by the run path: in the engine's folder, or where the package was installed.
#include "stoker/bridge/torch_cuda.h"

#include <dlfcn.h>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {
namespace {

TorchCuda* replacement = nullptr;

bool has_driver() {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver != nullptr && dlclose(driver) == 0;
}

}  // namespace

ReplacedTorchCuda::ReplacedTorchCuda(TorchCuda& library) {
    replacement = &library;
}

ReplacedTorchCuda::~ReplacedTorchCuda() {
    replacement = nullptr;
}

TorchCuda* find_torch_cuda() {
    try {
        return replacement != nullptr || has_driver() ? &torch_cuda() : nullptr;
    } catch (const Unsupported&) {
        return nullptr;
    }
}

TorchCuda& torch_cuda() {
    if (replacement != nullptr) {
        return *replacement;
    }
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
