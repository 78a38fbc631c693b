// Replaces gather_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/ops/gather_cuda.h"

namespace stoker {

bool gather_cuda_works() {
    return false;
}

void gather_cuda(const GatherBatch& /*batch*/, void* /*stream*/) {
    throw Unsupported({.where = "gather_cuda",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use <data.cache = \"ram\">"});
}

}  // namespace stoker
