// For as long as it lives, the calling thread's floats below 1.2e-38 are zeros. Momenta of inputs that are no longer
// there shrink by a tenth a step until they are that small, and then cost a hundred times as much each.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace stoker {

class FlushDenormals {
  public:
#if defined(__x86_64__)
    FlushDenormals() : before_(_mm_getcsr()) {
        _mm_setcsr(before_ | 0x8040U);
    }  // results, and operands
    ~FlushDenormals() {
        _mm_setcsr(before_);
    }
#elif defined(__aarch64__)
    FlushDenormals() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        asm volatile("msr fpcr, %0" : : "r"(before_ | (std::uint64_t{1} << 24)));
    }
    ~FlushDenormals() {
        asm volatile("msr fpcr, %0" : : "r"(before_));
    }
#else
    FlushDenormals() = default;
    ~FlushDenormals() {}
#endif
    FlushDenormals(const FlushDenormals&) = delete;
    FlushDenormals& operator=(const FlushDenormals&) = delete;

  private:
#if defined(__x86_64__)
    unsigned before_;
#elif defined(__aarch64__)
    std::uint64_t before_;
#endif
};

}  // namespace stoker
