// Replaces dct_pixels_cuda.cu in builds without nvcc.
#include "stoker/base/error.h"
#include "stoker/codecs/dct/dct_pixels_cuda.h"

namespace stoker {

bool dct_pixels_cuda_works() {
    return false;
}

void dct_pixels_cuda(const DctCropBatch& /*batch*/, void* /*stream*/) {
    throw Unsupported({.where = "dct_pixels_cuda",
                       .expected = "a build with CUDA",
                       .got = "a build without CUDA",
                       .hint = "install the CUDA toolkit and build again, or use data.decode_on = \"cpu\""});
}

}  // namespace stoker
