// In place of CUDA's header of this name: float16 as two bytes, rounded to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "stoker/base/float16.h"

struct __half {
    std::uint16_t bits;

    __half() = default;
    explicit __half(float value) : bits(stoker::to_float16(value)) {}
    explicit operator float() const {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
        const std::uint32_t size = bits & 0x7FFFU;
        if (size < 0x400U) {  // zero or below 2^-14
            const float value = static_cast<float>(size) * 0x1p-24F;
            return sign != 0 ? -value : value;
        }
        const std::uint32_t exponent = size >= 0x7C00U ? 0x70000000U : 0x38000000U;
        return std::bit_cast<float>(sign | ((size << 13) + exponent));
    }
};
