// Replaces normalize_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {

bool normalize_cuda_works() {
    return false;
}

void normalize_cuda(const NormalizeBatch& /*batch*/, void* /*stream*/) {
    throw Unsupported({.where = "normalize_cuda",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use device = \"cpu\""});
}

}  // namespace stoker
