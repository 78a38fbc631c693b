// Uses the compiler's CPUID support, which also checks that the operating system saves the wide registers.
#include "stoker/base/cpu_features.h"

#include <fstream>

namespace stoker {
namespace {

std::string model_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) {
            const auto colon = line.find(": ");
            return colon == std::string::npos ? "" : line.substr(colon + 2);
        }
    }
    return "";
}

CpuFeatures detect() {
    CpuFeatures features;
    features.model = model_name();
#if defined(__x86_64__)
    __builtin_cpu_init();
    features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    features.avx512_vbmi2 = features.avx512 && __builtin_cpu_supports("avx512vbmi") &&
                            __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg");
#elif defined(__aarch64__)
    features.neon = true;
#endif
    return features;
}

}  // namespace

std::vector<std::string> CpuFeatures::names() const {
    std::vector<std::string> list;
    const auto add = [&](bool present, const char* name) {
        if (present) {
            list.emplace_back(name);
        }
    };
    add(neon, "neon");
    add(avx2, "avx2");
    add(avx512, "avx512");
    add(avx512_vbmi2, "avx512_vbmi2");
    return list;
}

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = detect();
    return features;
}

}  // namespace stoker
