// In place of CUDA's header of this name: bfloat16 as two bytes, rounded to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

#include "stoker/base/float16.h"

struct __nv_bfloat16 {
    std::uint16_t bits;

    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float value) : bits(stoker::to_bfloat16(value)) {}
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
