// The colour loop compiled for AVX2 and AVX-512. Only functions marked with STOKER_AVX2 or STOKER_AVX512 use these
// instructions, and they are called only on processors that have them.
#include "stoker/base/cpu_features.h"
#include "stoker/ops/color_loops.h"

#define STOKER_AVX2 [[gnu::target("avx2,fma")]]
#define STOKER_AVX512 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]]

namespace stoker {
namespace {

using color_loops::run;

STOKER_AVX2 void run_avx2(std::uint8_t* pixels, std::size_t count, int channels, std::span<const ColorStage> stages) {
    run<false>(pixels, count, channels, stages);
}

STOKER_AVX2 std::uint64_t sum_avx2(std::uint8_t* pixels, std::size_t count, int channels,
                                   std::span<const ColorStage> stages) {
    return run<true>(pixels, count, channels, stages);
}

STOKER_AVX512 void run_avx512(std::uint8_t* pixels, std::size_t count, int channels,
                              std::span<const ColorStage> stages) {
    run<false>(pixels, count, channels, stages);
}

STOKER_AVX512 std::uint64_t sum_avx512(std::uint8_t* pixels, std::size_t count, int channels,
                                       std::span<const ColorStage> stages) {
    return run<true>(pixels, count, channels, stages);
}

}  // namespace

std::vector<ColorKernels> x86_color_kernels() {
    std::vector<ColorKernels> sets;
    if (cpu_features().avx2) {
        sets.push_back({"avx2", run_avx2, sum_avx2});
    }
    if (cpu_features().avx512) {
        sets.push_back({"avx512", run_avx512, sum_avx512});
    }
    return sets;
}

}  // namespace stoker
