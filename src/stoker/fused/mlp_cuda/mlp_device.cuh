// Shared by the kernels of a step: a thread's float as the formulas' register type, and copies to shared memory. For
// nvcc, and internal to mlp_cuda/.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "stoker/base/error.h"

namespace stoker::mlp_device {

// A float of a thread, as the formulas' register type; the CPU's is Plain in fused_kernels.cpp.
struct ThreadRegister {
    using Reg = float;
    __host__ __device__ static Reg set(float value) { return value; }
    __host__ __device__ static Reg add(Reg a, Reg b) { return a + b; }
    __host__ __device__ static Reg sub(Reg a, Reg b) { return a - b; }
    __host__ __device__ static Reg mul(Reg a, Reg b) { return a * b; }
    __host__ __device__ static Reg div(Reg a, Reg b) { return a / b; }
    __host__ __device__ static Reg sqrt(Reg a) { return sqrtf(a); }
    __host__ __device__ static Reg fma(Reg a, Reg b, Reg c) { return fmaf(a, b, c); }
    __host__ __device__ static Reg max(Reg a, Reg b) { return a > b ? a : b; }
    __host__ __device__ static Reg min(Reg a, Reg b) { return a < b ? a : b; }
    __host__ __device__ static Reg abs(Reg a) { return fabsf(a); }
    __host__ __device__ static Reg with_sign(Reg magnitude, Reg sign) { return copysignf(magnitude, sign); }
    __host__ __device__ static Reg where_less(Reg a, Reg b, Reg yes, Reg no) { return a < b ? yes : no; }
    __host__ __device__ static Reg add_exponent(Reg value, Reg shifted) {
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) +
                                    (std::bit_cast<std::uint32_t>(shifted) << 23));
    }
};
using R = ThreadRegister;

// Copies to shared memory that no thread waits for until __pipeline_wait_prior.
__device__ inline void copy_later(float* to, const float* from) {
    __pipeline_memcpy_async(to, from, sizeof(float));
}

// The first four of `left` values. `aligned`: a row is whole vectors of 16 bytes, so that four are left.
__device__ inline void copy_four(float4* to, const float* from, int left, bool aligned) {
    if (aligned) {
        __pipeline_memcpy_async(to, from, sizeof(float4));
        return;
    }
    for (int i = 0; i < 4 && i < left; ++i) {
        copy_later(reinterpret_cast<float*>(to) + i, from + i);
    }
}

inline unsigned blocks_of(std::int64_t count, int each) {
    return static_cast<unsigned>((count + each - 1) / each);
}

inline void require_launched(const char* kernel) {
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
        throw CudaError({.where = kernel, .expected = "a launch", .got = cudaGetErrorString(error)});
    }
}

}  // namespace stoker::mlp_device
