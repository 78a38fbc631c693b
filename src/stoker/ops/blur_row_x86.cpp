// The blur loop compiled for AVX2 and AVX-512. Only the marked functions use these instructions, and they are called
// only on processors that have them.
#include "stoker/base/cpu_features.h"
#include "stoker/ops/blur_row.h"

namespace stoker {
namespace {

[[gnu::target("avx2")]] void blur_avx2(const BlurRow& row) {
    blur_loops::blur(row);
}

[[gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void blur_avx512(
    const BlurRow& row) {
    blur_loops::blur(row);
}

}  // namespace

std::vector<BlurKernel> x86_blur_kernels() {
    std::vector<BlurKernel> kernels;
    if (cpu_features().avx2) {
        kernels.push_back({"avx2", blur_avx2});
    }
    if (cpu_features().avx512) {
        kernels.push_back({"avx512", blur_avx512});
    }
    return kernels;
}

}  // namespace stoker
