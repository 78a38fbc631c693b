// Stands in for kernels_x86.cpp on other processors.
#include "stoker/ops/kernels.h"

namespace stoker {

std::vector<OpKernels> x86_kernels() {
    return {};
}

}  // namespace stoker
