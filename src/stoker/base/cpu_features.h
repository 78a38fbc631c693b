// Instruction sets of this processor, for `stoker doctor` and for choosing kernels at run time.
#pragma once

#include <string>
#include <vector>

namespace stoker {

struct CpuFeatures {
    std::string model;          // "model name" of /proc/cpuinfo, empty if unknown
    bool avx2 = false;          // with FMA and BMI2
    bool avx512 = false;        // F, BW, CD, DQ, VL
    bool avx512_vbmi2 = false;  // additionally VBMI, VBMI2 and BITALG
    bool neon = false;

    // The instruction sets present, in lower case, smallest first.
    std::vector<std::string> names() const;
};

const CpuFeatures& cpu_features();

}  // namespace stoker
