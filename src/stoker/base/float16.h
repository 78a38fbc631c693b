// float32 to float16 and bfloat16, rounded to nearest, ties to even: the same bits as the processor's instructions; and
// back.
#pragma once

#include <bit>
#include <cstdint>

namespace stoker {

inline std::uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    const std::uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
    return static_cast<std::uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}

inline std::uint16_t to_float16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    const std::uint32_t size = bits & 0x7FFFFFFFu;
    std::uint32_t half = 0;
    if (size > 0x7F800000u) {
        half = 0x7E00u | (size >> 13 & 0x3FFu);  // NaN
    } else if (size >= 0x477FF000u) {
        half = 0x7C00u;  // 65520 and more round to infinity
    } else if (size >= 0x38800000u) {
        half = (size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13;
    } else {
        // Below 2^-14, float16 values are 2^-24 apart, like floats just above 0.5, so the addition rounds.
        half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3F000000u;
    }
    return static_cast<std::uint16_t>(sign | half);
}

inline float from_float16(std::uint16_t bits) {
    const std::uint32_t size = (bits & 0x7FFFu) << 13;
    const bool finite = size < 0x0F800000u;
    const float value = finite ? std::bit_cast<float>(size) * 0x1p112f
                               : std::bit_cast<float>(size | 0x7F800000u);  // moves the exponent
    return (bits & 0x8000u) != 0 ? -value : value;
}

inline float from_bfloat16(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace stoker
