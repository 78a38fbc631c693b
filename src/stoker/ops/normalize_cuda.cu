// One thread per pixel: a pixel's C bytes are adjacent, so a warp reads contiguous memory, and with planes it also
// writes contiguous memory. Multiplication and addition are not fused, as on the CPU.
#include <cuda_runtime_api.h>

#include <string>

// nvcc warns that BasicImageView<const T> converts to itself.
#pragma nv_diag_suppress 554
#include "stoker/base/error.h"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {
namespace {

constexpr int kThreads = 256;

struct Factors {
    float scale[4];
    float bias[4];
};

// images (N * plane, C), out (N, C, plane) or (N * plane, C)
template <int channels, bool planes>
__global__ void normalize_kernel(const std::uint8_t* __restrict__ images, std::int64_t pixels, std::int64_t plane,
                                 Factors factors, float* __restrict__ out) {
    const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pixels; i += step) {
        const std::int64_t image = i / plane;
        float* to = planes ? out + image * channels * plane + (i - image * plane) : out + i * channels;
#pragma unroll
        for (int c = 0; c < channels; ++c) {
            const float x = static_cast<float>(images[i * channels + c]);
            to[planes ? c * plane : c] = __fadd_rn(__fmul_rn(x, factors.scale[c]), factors.bias[c]);
        }
    }
}

// Without fmt: nvcc cannot evaluate its compile-time checks.
std::string shape(int n, int h, int w, int c) {
    return "(" + std::to_string(n) + ", " + std::to_string(h) + ", " + std::to_string(w) + ", " + std::to_string(c) +
           ")";
}

template <int channels>
void launch(const std::uint8_t* images, std::int64_t pixels, std::int64_t plane, const Factors& factors, Layout layout,
            float* out, cudaStream_t stream) {
    constexpr std::int64_t kMaxBlocks = 1 << 20;  // the kernel's loop covers the rest
    const std::int64_t wanted = (pixels + kThreads - 1) / kThreads;
    const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
    if (layout == Layout::chw) {
        normalize_kernel<channels, true><<<blocks, kThreads, 0, stream>>>(images, pixels, plane, factors, out);
    } else {
        normalize_kernel<channels, false><<<blocks, kThreads, 0, stream>>>(images, pixels, plane, factors, out);
    }
}

}  // namespace

void normalize_cuda(const std::uint8_t* images, int n, int h, int w, int c, const Normalize& op, Layout layout,
                    float* out, void* stream) {
    if (n < 0 || h < 0 || w < 0 || c < 1 || c > 4) {
        throw InvalidArgument(
            {.where = "normalize_cuda", .expected = "images of 1 to 4 channels", .got = shape(n, h, w, c)});
    }
    const NormalizeFactors host = normalize_factors(op);
    Factors factors{};
    for (std::size_t i = 0; i < 4; ++i) {
        factors.scale[i] = host.scale[i];
        factors.bias[i] = host.bias[i];
    }
    const std::int64_t plane = std::int64_t{h} * w;
    const std::int64_t pixels = plane * n;
    if (pixels == 0) {
        return;  // a launch of no blocks would be an error
    }
    const auto queue = static_cast<cudaStream_t>(stream);
    const auto run = c == 1 ? launch<1> : c == 2 ? launch<2> : c == 3 ? launch<3> : launch<4>;
    run(images, pixels, plane, factors, layout, out, queue);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = "normalize_cuda",
                         .expected = "a launch over " + shape(n, h, w, c),
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
