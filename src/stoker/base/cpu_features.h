// What this processor can do, for `stoker doctor` and for choosing kernels at run time.
#pragma once

#include <string>
#include <vector>

namespace stoker {

struct CpuFeatures {
    std::string model;          // as /proc/cpuinfo names it, empty where unknown
    bool avx2 = false;          // with FMA
    bool avx512 = false;        // F, BW, CD, DQ, VL
    bool avx512_vbmi2 = false;  // VBMI, VBMI2 and BITALG on top
    bool neon = false;

    // The sets that are present, lower case, smallest first.
    std::vector<std::string> names() const;
};

const CpuFeatures& cpu_features();

}  // namespace stoker
