// Stands in for normalize_cuda.cu where nvcc was not found.
#include "stoker/base/error.h"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {

void normalize_cuda(const std::uint8_t* /*images*/, int /*n*/, int /*h*/, int /*w*/, int /*c*/, const Normalize& /*op*/,
                    Layout /*layout*/, float* /*out*/, void* /*stream*/) {
    throw Unsupported({.where = "normalize_cuda",
                       .expected = "a build with CUDA",
                       .got = "one without",
                       .hint = "install the CUDA toolkit and build again, or use device = \"cpu\""});
}

}  // namespace stoker
