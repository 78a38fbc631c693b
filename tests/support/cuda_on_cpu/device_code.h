// The language of kernels, as C++ on the CPU. All threads of a grid run in one thread of the host, one after another,
// so atomics are plain operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/cuda_on_cpu/grid.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx stoker::on_cpu::thread_index
#define blockIdx stoker::on_cpu::block_index
#define blockDim stoker::on_cpu::block_size
#define gridDim stoker::on_cpu::grid_size

struct alignas(16) uint4 {
    std::uint32_t x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

// ---- arithmetic ----

inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline float rsqrt(float x) {
    return 1 / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1 / std::sqrt(x);
}
using std::max;
using std::min;

// ---- barriers, shuffles and votes ----

inline void __syncthreads() {
    stoker::on_cpu::wait_for_block();
}
inline void __syncwarp(unsigned mask = ~0U) {
    stoker::on_cpu::exchange(mask, 0);
}

namespace stoker::on_cpu {

inline unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp;
}

// The value of lane `from`; the own one where `inside` is false.
template <typename T>
T value_of(unsigned mask, T own, unsigned from, bool inside) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &own, sizeof(T));
    const std::vector<std::uint64_t> all = exchange(mask, bits);
    if (!inside) {
        return own;
    }
    if ((mask >> from & 1U) == 0) {
        throw KernelFault("a shuffle from a lane that its mask leaves out");
    }
    T value;
    std::memcpy(&value, &all[from], sizeof(T));
    return value;
}

}  // namespace stoker::on_cpu

template <typename T>
T __shfl_sync(unsigned mask, T value, unsigned from, unsigned width = 32) {
    const unsigned own = stoker::on_cpu::lane();
    return stoker::on_cpu::value_of(mask, value, own / width * width + from % width, true);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, unsigned width = 32) {
    const unsigned own = stoker::on_cpu::lane();
    return stoker::on_cpu::value_of(mask, value, own - by, own % width >= by);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, unsigned width = 32) {
    const unsigned own = stoker::on_cpu::lane();
    return stoker::on_cpu::value_of(mask, value, own + by, own % width + by < width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned with, unsigned width = 32) {
    const unsigned own = stoker::on_cpu::lane();
    return stoker::on_cpu::value_of(mask, value, own ^ with, ((own ^ with) / width) == own / width);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
    const std::vector<std::uint64_t> votes = stoker::on_cpu::exchange(mask, vote ? 1 : 0);
    unsigned all = 0;
    for (unsigned i = 0; i < stoker::on_cpu::kWarp; ++i) {
        all |= static_cast<unsigned>(votes[i]) << i;
    }
    return all;
}
inline bool __any_sync(unsigned mask, bool vote) {
    return __ballot_sync(mask, vote) != 0;
}
inline bool __all_sync(unsigned mask, bool vote) {
    return __ballot_sync(mask, vote) == mask;
}
inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
inline int __popcll(unsigned long long bits) {
    return __builtin_popcountll(bits);
}
inline int __ffsll(long long bits) {
    return __builtin_ffsll(bits);
}

// ---- atomics ----

template <typename T, typename Change>
T changed_atomically(T* at, const Change& change) {
    const T before = *at;
    *at = change(before);
    return before;
}
template <typename T>
T atomicAdd(T* at, T value) {
    return changed_atomically(at, [&](T before) { return static_cast<T>(before + value); });
}
template <typename T>
T atomicMax(T* at, T value) {
    return changed_atomically(at, [&](T before) { return before < value ? value : before; });
}
template <typename T>
T atomicMin(T* at, T value) {
    return changed_atomically(at, [&](T before) { return value < before ? value : before; });
}
template <typename T>
T atomicOr(T* at, T value) {
    return changed_atomically(at, [&](T before) { return before | value; });
}
template <typename T>
T atomicExch(T* at, T value) {
    return changed_atomically(at, [&](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, T expected, T value) {
    return changed_atomically(at, [&](T before) { return before == expected ? value : before; });
}
