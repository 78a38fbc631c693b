// The library is found by the run path, as libstoker_torch_cuda.so is.
#include "stoker/dist/nccl.h"

#include <dlfcn.h>

#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"

namespace stoker {
namespace {

using Connect = void (*)(const NcclRequest&, NcclBackend&);

std::function<NcclBackend(const NcclRequest&)> replacement;

struct Opened {
    Connect connect = nullptr;
    std::string why_not = {};
};

Opened open_library() {
    if (const std::string why_not = load_torch_cuda(); !why_not.empty()) {
        return {.why_not = why_not};
    }
    void* library = dlopen("libstoker_nccl.so", RTLD_NOW | RTLD_LOCAL);  // never closed
    void* entry = library == nullptr ? nullptr : dlsym(library, "stoker_connect_nccl");
    if (entry == nullptr) {
        return {.why_not = dlerror()};
    }
    return {.connect = reinterpret_cast<Connect>(entry)};
}

const Opened& opened() {
    static const Opened library = open_library();
    return library;
}

}  // namespace

ReplacedNccl::ReplacedNccl(std::function<NcclBackend(const NcclRequest&)> connect) {
    replacement = std::move(connect);
}

ReplacedNccl::~ReplacedNccl() {
    replacement = nullptr;
}

std::string why_no_nccl(const at::Device& device) {
    return replacement ? "" : device.is_cuda() ? opened().why_not : "no GPU";
}

NcclBackend connect_nccl(const NcclRequest& request) {
    if (replacement) {
        return replacement(request);
    }
    if (opened().connect == nullptr) {
        throw Unsupported({.where = "device",
                           .expected = "libstoker_nccl.so",
                           .got = opened().why_not,
                           .hint = "it is built where LibTorch's wheel comes with NCCL's header"});
    }
    NcclBackend connected;
    opened().connect(request, connected);
    return connected;
}

}  // namespace stoker
