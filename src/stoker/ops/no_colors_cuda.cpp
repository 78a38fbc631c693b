// Replaces colors_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/ops/colors_cuda.h"

namespace stoker {

bool colors_cuda_works() {
    return false;
}

void colors_cuda(const ColorsBatch& /*batch*/, void* /*stream*/) {
    throw Unsupported({.where = "colors_cuda",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use <data.cache = \"ram\">"});
}

}  // namespace stoker
