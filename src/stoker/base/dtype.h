// Element types of tensors and batch fields, with PyTorch's names. Names and sizes are switches, so that the compiler
// warns if a new type is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "stoker/base/error.h"

namespace stoker {

enum class DType : std::uint8_t { uint8, uint16, int16, int32, int64, float16, bfloat16, float32, float64 };

constexpr std::size_t item_size(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return 1;
        case DType::uint16:
        case DType::int16:
        case DType::float16:
        case DType::bfloat16:
            return 2;
        case DType::int32:
        case DType::float32:
            return 4;
        case DType::int64:
        case DType::float64:
            return 8;
    }
    return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return "uint8";
        case DType::uint16:
            return "uint16";
        case DType::int16:
            return "int16";
        case DType::int32:
            return "int32";
        case DType::int64:
            return "int64";
        case DType::float16:
            return "float16";
        case DType::bfloat16:
            return "bfloat16";
        case DType::float32:
            return "float32";
        case DType::float64:
            return "float64";
    }
    return "?";
}

constexpr bool is_integer(DType dtype) {
    return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::int16 || dtype == DType::int32 ||
           dtype == DType::int64;
}

template <typename T>
struct dtype_of;
template <>
struct dtype_of<std::uint8_t> : std::integral_constant<DType, DType::uint8> {};
template <>
struct dtype_of<std::uint16_t> : std::integral_constant<DType, DType::uint16> {};
template <>
struct dtype_of<std::int16_t> : std::integral_constant<DType, DType::int16> {};
template <>
struct dtype_of<std::int32_t> : std::integral_constant<DType, DType::int32> {};
template <>
struct dtype_of<std::int64_t> : std::integral_constant<DType, DType::int64> {};
template <>
struct dtype_of<float> : std::integral_constant<DType, DType::float32> {};
template <>
struct dtype_of<double> : std::integral_constant<DType, DType::float64> {};

}  // namespace stoker
