// Replaces batch_norm_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/models/kernels/batch_norm_cuda.h"

namespace stoker {
namespace {

[[noreturn]] void refuse() {
    throw Unsupported({.where = "batch norm",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use device = \"cpu\""});
}

}  // namespace

bool batch_norm_cuda_takes(const BatchNormShape& /*shape*/) {
    return false;
}

std::int64_t batch_norm_workspace(const BatchNormShape& /*shape*/) {
    refuse();
}

std::int64_t batch_norm_mask_bytes(const BatchNormShape& /*shape*/) {
    refuse();
}

void batch_norm_forward_cuda(const BatchNormShape& /*shape*/, const BatchNormForward& /*op*/, void* /*stream*/) {
    refuse();
}

void batch_norm_backward_cuda(const BatchNormShape& /*shape*/, const BatchNormBackward& /*op*/, void* /*stream*/) {
    refuse();
}

}  // namespace stoker
