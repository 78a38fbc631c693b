// The implementation of nccl.h on LibTorch's CUDA side. Nothing else is linked against NCCL's process group.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <string>
#include <utility>

#include "stoker/dist/nccl.h"

extern "C" [[gnu::visibility("default")]] void stoker_connect_nccl(const stoker::NcclRequest& request,
                                                                   stoker::NcclBackend& connected) {
    // By default c10d ends the whole process from a thread of its own when a collective fails, without a message and
    // without a checkpoint. This ends the collective alone.
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", std::to_string(c10d::CleanUpOnly).c_str(), /*overwrite=*/1);
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = request.timeout;
    auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size, options);
    if (request.whole) {
        nccl->eagerConnectSingleDevice(request.device);
    }
    connected = std::move(nccl);
}
