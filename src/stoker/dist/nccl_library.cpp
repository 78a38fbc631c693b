// The implementation of nccl.h on LibTorch's CUDA side. Nothing else is linked against NCCL's process group.
#include <dlfcn.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "stoker/dist/nccl.h"

namespace {

// c10d's settings for a collective that fails, which it reads when a process group is made. Its own end the process
// from other threads: at once, or after eight minutes in which they write traces. These end the collective alone.
void set_failure_handling() {
    constexpr std::array<std::pair<const char*, const char*>, 7> kSettings = {{
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},  // CleanUpOnly
        {"TORCH_NCCL_BLOCKING_WAIT", "0"},
        {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
        {"TORCH_NCCL_ENABLE_MONITORING", "0"},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
        {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"},
        {"TORCH_FR_BUFFER_SIZE", "0"},
    }};
    static const bool set = [&] {
        for (const auto& [name, value] : kSettings) {
            setenv(name, value, /*overwrite=*/1);
        }
        return true;
    }();
    static_cast<void>(set);
}

// c10d's options contain a struct of NCCL's header, so both must be of one version.
void require_version() {
    using Version = ncclResult_t (*)(int*);
    const auto version = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
    int found = 0;
    if (version == nullptr || version(&found) != ncclSuccess || found != NCCL_VERSION_CODE) {
        throw std::runtime_error("NCCL " + std::to_string(found) + ", but built with the header of " +
                                 std::to_string(NCCL_VERSION_CODE));
    }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void stoker_connect_nccl(const stoker::NcclRequest& request,
                                                                   stoker::NcclBackend& connected) {
    const c10::cuda::CUDAGuard on_device(request.device);  // the thread that connects has another current one
    require_version();
    set_failure_handling();
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = request.timeout;
    auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size, options);
    if (request.whole) {
        nccl->eagerConnectSingleDevice(request.device);
    }
    connected = std::move(nccl);
}
