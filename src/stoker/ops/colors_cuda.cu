// One block for each image. A thread takes the same pixels for all steps, so they need barriers only around the sum of
// the grays, which the contrast's mean is made of. Compiled with -fmad=false: the formulas of color_pixel.h round as
// on the CPU.
#include <cuda_runtime_api.h>

#include <string>

// nvcc warns that BasicImageView<const T> converts to itself.
#pragma nv_diag_suppress 554
#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/ops/color_pixel.h"
#include "stoker/ops/colors_cuda.h"
#include "stoker/ops/erasing_device.cuh"

namespace stoker {
namespace {

constexpr int kThreads = 512;

struct ColorsArguments {
    const OutputDraw* draws;
    std::size_t stride;
    int height;
    int width;
    ErasedBytes erased;
};

template <int channels>
__device__ void load(const std::uint8_t* pixel, float (&value)[channels]) {
    for (int c = 0; c < channels; ++c) {
        value[c] = static_cast<float>(pixel[c]);
    }
}

template <int channels>
__device__ void store(const float (&value)[channels], std::uint8_t* pixel) {
    for (int c = 0; c < channels; ++c) {
        pixel[c] = static_cast<std::uint8_t>(static_cast<int>(value[c]));
    }
}

template <int channels>
__device__ float gray_of(const float (&value)[channels]) {
    if constexpr (channels == 3) {
        return color_pixel::gray_of(value[0], value[1], value[2]);
    }
    return value[0];
}

template <int channels>
__device__ void blend(float (&value)[channels], float factor, float other) {
    const float rest = color_pixel::rest_of(factor);
    for (int c = 0; c < channels; ++c) {
        value[c] = color_pixel::blended(value[c], factor, other, rest);
    }
}

template <int channels>
__device__ void run_step(ColorStep step, float factor, float mean, float (&value)[channels]) {
    if (step == ColorStep::scale) {
        for (int c = 0; c < channels; ++c) {
            value[c] = color_pixel::scaled(value[c], factor);
        }
    } else if (step == ColorStep::contrast) {
        blend(value, factor, mean);
    } else if constexpr (channels == 3) {
        if (step == ColorStep::saturate) {
            blend(value, factor, gray_of(value));
        } else if (step == ColorStep::hue) {
            color_pixel::turn_hue(value[0], value[1], value[2], factor);
        } else {
            const float gray = gray_of(value);
            value[0] = gray;
            value[1] = gray;
            value[2] = gray;
        }
    }
}

// Steps `first` to before `last` on this thread's pixels. Returns the sum of their grays.
template <int channels>
__device__ unsigned run_steps(const OutputDraw& draw, int first, int last, float mean, int pixels,
                              std::uint8_t* image) {
    unsigned grays = 0;
    for (int p = static_cast<int>(threadIdx.x); p < pixels; p += static_cast<int>(blockDim.x)) {
        float value[channels];
        load(image + p * channels, value);
        for (int i = first; i < last; ++i) {
            run_step(draw.step[i], draw.factor[i], mean, value);
        }
        if (first < last) {
            store(value, image + p * channels);
        }
        grays += static_cast<unsigned>(gray_of(value));
    }
    return grays;
}

template <int channels>
__device__ void erase(const ColorsArguments& a, const OutputDraw& draw, std::uint8_t* image) {
    const Box& box = draw.erased;
    for (int p = static_cast<int>(threadIdx.x); p < box.height * box.width; p += static_cast<int>(blockDim.x)) {
        const int y = box.top + p / box.width;
        const int x = box.left + p % box.width;
        for (int c = 0; c < channels; ++c) {
            image[(y * a.width + x) * channels + c] = static_cast<std::uint8_t>(erased_byte(a.erased, draw, {y, x, c}));
        }
    }
}

// images (n, height, width, channels)
template <int channels>
__global__ void colors_kernel(const __grid_constant__ ColorsArguments a, std::uint8_t* __restrict__ images) {
    __shared__ unsigned sum;
    const OutputDraw& draw =
        *reinterpret_cast<const OutputDraw*>(reinterpret_cast<const std::uint8_t*>(a.draws) + blockIdx.x * a.stride);
    const int pixels = a.height * a.width;
    std::uint8_t* const image = images + std::int64_t{blockIdx.x} * pixels * channels;
    int first = 0;
    float mean = 0;
    for (int i = 0; i < draw.steps; ++i) {
        if (draw.step[i] == ColorStep::contrast) {
            if (threadIdx.x == 0) {
                sum = 0;
            }
            __syncthreads();
            atomicAdd(&sum, run_steps<channels>(draw, first, i, mean, pixels, image));
            __syncthreads();
            mean = static_cast<float>(static_cast<double>(sum) / pixels);
            __syncthreads();
            first = i;
        }
    }
    if (draw.steps > 0) {
        run_steps<channels>(draw, first, draw.steps, mean, pixels, image);
    }
    if (draw.erased.height > 0) {
        __syncthreads();
        erase<channels>(a, draw, image);
    }
}

}  // namespace

bool colors_cuda_works() {
    return kernel_works(colors_kernel<3>);
}

void colors_cuda(const ColorsBatch& batch, void* stream) {
    require_colors(batch);
    if (batch.n == 0) {
        return;  // a launch of no blocks would be an error
    }
    const ColorsArguments a{.draws = batch.draws,
                            .stride = batch.stride,
                            .height = batch.size.height,
                            .width = batch.size.width,
                            .erased = {.color = packed_color(batch.erased_value.value_or(Color{})),
                                       .noise = !batch.erased_value.has_value(),
                                       .channels = batch.channels}};
    const auto blocks = static_cast<unsigned>(batch.n);
    auto* const on = static_cast<cudaStream_t>(stream);
    if (batch.channels == 3) {
        colors_kernel<3><<<blocks, kThreads, 0, on>>>(a, batch.images);
    } else {
        colors_kernel<1><<<blocks, kThreads, 0, on>>>(a, batch.images);
    }
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = "colors_cuda",
                         .expected = "a launch over " + std::to_string(batch.n) + " images",
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
