// Stands in for color_kernels_x86.cpp on other processors.
#include "stoker/ops/color_kernels.h"

namespace stoker {

std::vector<ColorKernels> x86_color_kernels() {
    return {};
}

}  // namespace stoker
