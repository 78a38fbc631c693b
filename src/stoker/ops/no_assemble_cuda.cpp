// Replaces assemble_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/ops/assemble_cuda.h"

namespace stoker {

bool assemble_cuda_works() {
    return false;
}

void assemble_cuda(const AssembleBatch& /*batch*/, void* /*stream*/) {
    throw Unsupported({.where = "assemble_cuda",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use <data.decode_on = \"cpu\">"});
}

}  // namespace stoker
