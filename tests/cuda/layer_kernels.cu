#include <cuda_runtime_api.h>

#include "cuda/layer_kernels.h"

namespace stoker::testing {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

template <bool forgetful>
__global__ void block_sums_kernel(const int* __restrict__ values, int* sums) {
    __shared__ int shared[kThreads];
    const int own = static_cast<int>(threadIdx.x);
    shared[own] = values[static_cast<int>(blockIdx.x) * kThreads + own];
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (!forgetful) {
            __syncthreads();
        }
        if (own < half) {
            shared[own] += shared[own + half];
        }
    }
    if (own == 0) {
        sums[blockIdx.x] = shared[0];
    }
}

__global__ void warp_sums_kernel(const int* __restrict__ values, int* down, int* across, int* odd) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    int a = values[i];
    int b = values[i];
    const unsigned votes = __ballot_sync(kAllLanes, a % 2 != 0);
    for (unsigned by = 16; by > 0; by /= 2) {
        a += __shfl_down_sync(kAllLanes, a, by);
        b += __shfl_xor_sync(kAllLanes, b, by);
    }
    b = __shfl_sync(kAllLanes, b, 31);
    if (threadIdx.x % 32 == 0) {
        down[i / 32] = a;
        across[i / 32] = b;
        odd[i / 32] = __popc(votes);
    }
}

__global__ void prefix_sums_kernel(const int* values, int* sums) {
    constexpr unsigned width = 16;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = values[i];
    for (unsigned by = 1; by < width; by *= 2) {
        const int before = __shfl_up_sync(kAllLanes, sum, by, width);
        sum += i % width >= by ? before : 0;
    }
    sums[i] = sum;
}

template <bool careless>
__global__ void histogram_kernel(const std::uint8_t* values, int count, int* bins) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    __shared__ int own[8];
    if (threadIdx.x < 8) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();
    if (i < count) {
        if (careless) {
            const int before = own[values[i]];
            __syncwarp(__ballot_sync(kAllLanes, true));
            own[values[i]] = before + 1;
        } else {
            atomicAdd(&own[values[i]], 1);
        }
    }
    __syncthreads();
    if (threadIdx.x < 8) {
        atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
    }
}

__global__ void shift_kernel(const float* in, int count, float* out) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < count) {
        out[i] = in[i + 1];
    }
}

__global__ void copy_vectors_kernel(const float* in, int count, float* out) {
    const int i = static_cast<int>(threadIdx.x) * 4;
    if (i < count) {
        *reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(in + i);
    }
}

__global__ void diverge_kernel() {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncwarp();
    }
}

__global__ void vote_with_the_ended_kernel() {
    if (threadIdx.x >= 16) {
        return;
    }
    __any_sync(kAllLanes, true);
}

__global__ void read_unwritten_kernel(float* out) {
    __shared__ float shared[32];
    out[threadIdx.x] = shared[threadIdx.x];
}

}  // namespace

void block_sums(const int* values, int blocks, int* sums, bool forgetful) {
    const auto kernel = forgetful ? block_sums_kernel<true> : block_sums_kernel<false>;
    kernel<<<blocks, kThreads>>>(values, sums);
}

void warp_sums(const int* values, int warps, int* down, int* across, int* odd) {
    warp_sums_kernel<<<warps / 2, 64>>>(values, down, across, odd);
}

void prefix_sums(const int* values, int threads, int* sums) {
    prefix_sums_kernel<<<threads / 32, 32>>>(values, sums);
}

void histogram(const std::uint8_t* values, int count, int* bins, bool careless) {
    const auto kernel = careless ? histogram_kernel<true> : histogram_kernel<false>;
    kernel<<<(count + 63) / 64, dim3(64)>>>(values, count, bins);
}

void shift(const float* in, int count, float* out) {
    shift_kernel<<<1, 64>>>(in, count, out);
}

void copy_vectors(const float* in, int count, float* out) {
    copy_vectors_kernel<<<1, 64>>>(in, count, out);
}

void diverge() {
    diverge_kernel<<<1, 32>>>();
}

void vote_with_the_ended() {
    vote_with_the_ended_kernel<<<1, 32>>>();
}

void read_unwritten(float* out) {
    read_unwritten_kernel<<<1, 32>>>(out);
}

}  // namespace stoker::testing
