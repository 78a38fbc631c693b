// Replaces fused_mlp_cuda.cpp in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/fused/mlp_cuda/fused_mlp_cuda.h"

namespace stoker {
namespace {

[[noreturn]] void refuse() {
    throw Unsupported({.where = "fused step",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use train.compile = \"none\""});
}

}  // namespace

std::string why_no_fused_mlp_cuda(const FusedMlpOptions& /*options*/, std::int64_t /*samples*/) {
    return "this build has no kernels for GPUs";
}

std::int64_t fused_mlp_cuda_workspace(const FusedMlpOptions& /*options*/, std::int64_t /*samples*/) {
    refuse();
}

void fused_mlp_step_cuda(const FusedMlpOptions& /*options*/, std::span<const FusedMlpCudaLayer> /*layers*/,
                         const FusedMlpCudaStep& /*step*/, void* /*stream*/) {
    refuse();
}

}  // namespace stoker
