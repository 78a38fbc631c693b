// Replaces kernels_x86.cpp and color_kernels_x86.cpp on other processors.
#include "stoker/ops/color_kernels.h"
#include "stoker/ops/kernels.h"

namespace stoker {

std::vector<OpKernels> x86_kernels() {
    return {};
}

std::vector<ColorKernels> x86_color_kernels() {
    return {};
}

}  // namespace stoker
