// The mel loops compiled for AVX2 and AVX-512. Only the marked functions use these instructions, and they are called
// only on processors that have them.
#include "stoker/base/cpu_features.h"
#include "stoker/ops/mel_loops.h"

#define STOKER_AVX2 [[gnu::target("avx2")]]
#define STOKER_AVX512 [[gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]]

namespace stoker {
namespace {

STOKER_AVX2 void run_avx2(const MelPlan& plan, const MelRows& rows) {
    mel_loops::run<8>(plan, rows);
}

STOKER_AVX2 void to_db_avx2(float* values, std::size_t count, float multiplier) {
    mel_loops::to_db(values, count, multiplier);
}

STOKER_AVX512 void run_avx512(const MelPlan& plan, const MelRows& rows) {
    mel_loops::run<16>(plan, rows);
}

STOKER_AVX512 void to_db_avx512(float* values, std::size_t count, float multiplier) {
    mel_loops::to_db(values, count, multiplier);
}

}  // namespace

std::vector<MelKernels> x86_mel_kernels() {
    std::vector<MelKernels> sets;
    if (cpu_features().avx2) {
        sets.push_back({"avx2", run_avx2, to_db_avx2});
    }
    if (cpu_features().avx512) {
        sets.push_back({"avx512", run_avx512, to_db_avx512});
    }
    return sets;
}

}  // namespace stoker
