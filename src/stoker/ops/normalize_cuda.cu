// One thread per pixel: a pixel's C bytes are adjacent, so a warp reads contiguous memory, and with planes it also
// writes contiguous memory. Multiplication and addition are not fused, as on the CPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <string>

// nvcc warns that BasicImageView<const T> converts to itself.
#pragma nv_diag_suppress 554
#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {
namespace {

constexpr int kThreads = 256;

struct Factors {
    float scale[4];
    float bias[4];
};

// images (N * plane, C), out (N, C, plane) or (N * plane, C)
template <typename T, int channels, bool planes>
__global__ void normalize_kernel(const std::uint8_t* __restrict__ images, std::int64_t pixels, std::int64_t plane,
                                 Factors factors, T* __restrict__ out) {
    const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pixels; i += step) {
        const std::int64_t image = i / plane;
        T* to = planes ? out + image * channels * plane + (i - image * plane) : out + i * channels;
#pragma unroll
        for (int c = 0; c < channels; ++c) {
            const float x = static_cast<float>(images[i * channels + c]);
            to[planes ? c * plane : c] = static_cast<T>(__fadd_rn(__fmul_rn(x, factors.scale[c]), factors.bias[c]));
        }
    }
}

// Without fmt: nvcc cannot evaluate its compile-time checks.
std::string shape(const NormalizeBatch& batch) {
    return "(" + std::to_string(batch.n) + ", " + std::to_string(batch.h) + ", " + std::to_string(batch.w) + ", " +
           std::to_string(batch.c) + ")";
}

template <typename T, int channels>
void launch(const NormalizeBatch& batch, cudaStream_t stream) {
    Factors factors{};
    for (std::size_t i = 0; i < 4; ++i) {
        factors.scale[i] = batch.factors.scale[i];
        factors.bias[i] = batch.factors.bias[i];
    }
    const std::int64_t plane = std::int64_t{batch.h} * batch.w;
    const std::int64_t pixels = plane * batch.n;
    constexpr std::int64_t kMaxBlocks = 1 << 20;  // the kernel's loop covers the rest
    const std::int64_t wanted = (pixels + kThreads - 1) / kThreads;
    const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
    auto* out = static_cast<T*>(batch.out);
    if (batch.layout == Layout::chw) {
        normalize_kernel<T, channels, true><<<blocks, kThreads, 0, stream>>>(batch.images, pixels, plane, factors, out);
    } else {
        normalize_kernel<T, channels, false>
            <<<blocks, kThreads, 0, stream>>>(batch.images, pixels, plane, factors, out);
    }
}

template <typename T>
void launch_as(const NormalizeBatch& batch, cudaStream_t stream) {
    const auto run = batch.c == 1   ? launch<T, 1>
                     : batch.c == 2 ? launch<T, 2>
                     : batch.c == 3 ? launch<T, 3>
                                    : launch<T, 4>;
    run(batch, stream);
}

void check(const NormalizeBatch& batch) {
    const bool floats =
        batch.dtype == DType::float32 || batch.dtype == DType::float16 || batch.dtype == DType::bfloat16;
    if (batch.n < 0 || batch.h < 0 || batch.w < 0 || batch.c < 1 || batch.c > 4 || !floats) {
        throw InvalidArgument({.where = "normalize_cuda",
                               .expected = "images of 1 to 4 channels to float32, float16 or bfloat16",
                               .got = shape(batch) + " to " + std::string(dtype_name(batch.dtype))});
    }
}

}  // namespace

bool normalize_cuda_works() {
    return kernel_works(normalize_kernel<float, 3, true>);
}

void normalize_cuda(const NormalizeBatch& batch, void* stream) {
    check(batch);
    if (batch.n == 0 || batch.h == 0 || batch.w == 0) {
        return;  // a launch of no blocks would be an error
    }
    const auto run = batch.dtype == DType::bfloat16  ? launch_as<__nv_bfloat16>
                     : batch.dtype == DType::float16 ? launch_as<__half>
                                                     : launch_as<float>;
    run(batch, static_cast<cudaStream_t>(stream));
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = "normalize_cuda",
                         .expected = "a launch over " + shape(batch),
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
