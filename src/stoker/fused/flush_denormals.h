// While the object lives, denormal floats (below 1.2e-38) of the calling thread are zeros. Momenta of inputs that stay
// 0 shrink by a constant factor every step until they are denormal, which makes arithmetic on them a hundred times
// slower.
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
    }  // FTZ: results; DAZ: operands
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
