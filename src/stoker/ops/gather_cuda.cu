// One thread per value of the output, in the order of memory, so that a warp writes contiguous memory. Blocks (x: the
// sample, y: a part of its values).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

// nvcc warns that BasicImageView<const T> converts to itself.
#pragma nv_diag_suppress 554
#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/ops/gather_cuda.h"
#include "stoker/ops/gather_device.cuh"
#include "stoker/ops/resize_device.cuh"

namespace stoker {
namespace {

using namespace gather_device;
using namespace resize_device;

constexpr int kThreads = 256;
constexpr int kValues = 4096;  // of a block

// The place in the output of value v of a sample.
template <bool planes>
__device__ Place place_of(const Arguments& a, int v) {
    if constexpr (planes) {
        const int line = v / a.out_width;
        return {line % a.out_height, v - line * a.out_width, line / a.out_height};
    }
    const int pixel = v / a.channels;
    const int y = pixel / a.out_width;
    return {y, pixel - y * a.out_width, v - pixel * a.channels};
}

// Writes the values of this block's part; byte_of(place before the flips) reads the image.
template <typename T, bool planes, typename ByteOf>
__device__ void write_values(const Arguments& a, const GatherDraw& draw, T* out, const ByteOf& byte_of) {
    const int values = a.out_height * a.out_width * a.channels;
    const int begin = static_cast<int>(blockIdx.y) * kValues;
    const int end = values - begin < kValues ? values : begin + kValues;
    T* const to = out + std::int64_t{blockIdx.x} * values;
    for (int v = begin + static_cast<int>(threadIdx.x); v < end; v += static_cast<int>(blockDim.x)) {
        const Place at = place_of<planes>(a, v);
        int byte = 0;
        if (draw.image != 0 && a.erases && contains(draw.output.erased, at)) {
            byte = erased_byte(a.erased, draw.output, at);
        } else if (draw.image != 0) {
            byte = byte_of(Place{draw.flip_vertical != 0 ? a.out_height - 1 - at.y : at.y,
                                 draw.flip_horizontal != 0 ? a.out_width - 1 - at.x : at.x, at.c});
        }
        if constexpr (std::is_same_v<T, std::uint8_t>) {
            to[v] = static_cast<std::uint8_t>(byte);
        } else {
            to[v] = static_cast<T>(__fadd_rn(__fmul_rn(static_cast<float>(byte), a.scale[at.c]), a.bias[at.c]));
        }
    }
}

__device__ const std::uint8_t* image_of(const Arguments& a, const GatherDraw& draw) {
    return a.images + (draw.image - 1) * (std::int64_t{a.height} * a.width * a.channels);
}

// draws (n), out (n, channels, out_height, out_width) or (n, out_height, out_width, channels)
template <typename T, bool planes>
__global__ void gather_kernel(const __grid_constant__ Arguments a, T* __restrict__ out) {
    const GatherDraw draw = a.draws[blockIdx.x];
    const std::uint8_t* const image = image_of(a, draw);
    write_values<T, planes>(a, draw, out, [&](const Place& at) { return cropped_byte(a, draw, image, at); });
}

template <typename T, bool planes>
__global__ void gather_resized_kernel(const __grid_constant__ Arguments a, T* __restrict__ out) {
    __shared__ int first[kGatherOutputs];
    __shared__ int count[kGatherOutputs];
    __shared__ int weights[kGatherWeights];
    const GatherDraw draw = a.draws[blockIdx.x];
    const Axis rows{first, count, weights, a.y_stride};
    const Axis columns{first + a.out_height, count + a.out_height, weights + a.out_height * a.y_stride, a.x_stride};
    if (draw.image != 0) {
        build_axis(draw.box.height, a.out_height, 0, a.out_height, a.cubic, rows);
        build_axis(draw.box.width, a.out_width, 0, a.out_width, a.cubic, columns);
    }
    __syncthreads();
    const std::uint8_t* const box = image_of(a, draw) + (draw.box.top * a.width + draw.box.left) * a.channels;
    write_values<T, planes>(a, draw, out, [&](const Place& at) {
        return resized_byte(box + at.c, a.width * a.channels, a.channels, taps_of(rows, at.y), taps_of(columns, at.x));
    });
}

Arguments arguments_of(const GatherBatch& batch) {
    Arguments a{.images = batch.images,
                .draws = batch.draws,
                .height = batch.from.height,
                .width = batch.from.width,
                .channels = batch.channels,
                .out_height = batch.to.height,
                .out_width = batch.to.width,
                .y_stride = resize_stride(batch.from.height, batch.to.height, batch.ops.interpolation),
                .x_stride = resize_stride(batch.from.width, batch.to.width, batch.ops.interpolation),
                .cubic = batch.ops.interpolation == Interpolation::bicubic,
                .mode = batch.ops.mode,
                .fill = packed_color(batch.ops.fill),
                .erases = !batch.ops.colors,
                .erased = {.color = packed_color(batch.ops.erased_value.value_or(Color{})),
                           .noise = !batch.ops.erased_value.has_value(),
                           .channels = batch.channels},
                .scale = {},
                .bias = {}};
    for (std::size_t i = 0; i < 4; ++i) {
        a.scale[i] = batch.factors.scale[i];
        a.bias[i] = batch.factors.bias[i];
    }
    return a;
}

template <typename T>
void launch(const GatherBatch& batch, cudaStream_t stream) {
    const Arguments a = arguments_of(batch);
    const int values = a.out_height * a.out_width * a.channels;
    const dim3 blocks(static_cast<unsigned>(batch.n), static_cast<unsigned>((values + kValues - 1) / kValues));
    auto* const out = static_cast<T*>(batch.out);
    if constexpr (!std::is_same_v<T, std::uint8_t>) {
        if (batch.layout == Layout::chw) {
            if (batch.ops.resizes) {
                gather_resized_kernel<T, true><<<blocks, kThreads, 0, stream>>>(a, out);
            } else {
                gather_kernel<T, true><<<blocks, kThreads, 0, stream>>>(a, out);
            }
            return;
        }
    }
    if (batch.ops.resizes) {
        gather_resized_kernel<T, false><<<blocks, kThreads, 0, stream>>>(a, out);
    } else {
        gather_kernel<T, false><<<blocks, kThreads, 0, stream>>>(a, out);
    }
}

// Without fmt: nvcc cannot evaluate its compile-time checks.
std::string describe(const GatherBatch& batch) {
    const auto text = [](ImageSize size) { return std::to_string(size.height) + " x " + std::to_string(size.width); };
    return std::to_string(batch.n) + " images of " + text(batch.from) + " x " + std::to_string(batch.channels) +
           " to " + text(batch.to) + " as " + std::string(dtype_name(batch.dtype));
}

void check(const GatherBatch& batch) {
    constexpr std::int64_t kMost = std::int64_t{1} << 28;  // values of a sample: 65,535 blocks of 4,096
    const auto values = [&](ImageSize size) { return std::int64_t{size.height} * size.width * batch.channels; };
    const bool sizes = batch.n >= 0 && batch.from.height > 0 && batch.from.width > 0 && batch.to.height > 0 &&
                       batch.to.width > 0 && batch.channels >= 1 && batch.channels <= 4;
    const bool type = batch.dtype == DType::float32 || batch.dtype == DType::float16 ||
                      batch.dtype == DType::bfloat16 || (batch.dtype == DType::uint8 && batch.layout == Layout::hwc);
    if (!sizes || !type || values(batch.from) >= kMost || values(batch.to) >= kMost - kValues ||
        (batch.ops.resizes &&
         (!on_device(batch.ops.interpolation) || !gather_fits(batch.from, batch.to, batch.ops.interpolation)))) {
        throw InvalidArgument({.where = "gather_cuda",
                               .expected = "images of 1 to 4 channels to float32, float16, bfloat16 or, as hwc, uint8, "
                                           "and a bilinear or bicubic resize whose weights fit in "
                                           "shared memory",
                               .got = describe(batch)});
    }
}

}  // namespace

bool gather_cuda_works() {
    return kernel_works(gather_kernel<float, true>);
}

void gather_cuda(const GatherBatch& batch, void* stream) {
    check(batch);
    if (batch.n == 0) {
        return;  // a launch of no blocks would be an error
    }
    const auto run = batch.dtype == DType::bfloat16  ? launch<__nv_bfloat16>
                     : batch.dtype == DType::float16 ? launch<__half>
                     : batch.dtype == DType::uint8   ? launch<std::uint8_t>
                                                     : launch<float>;
    run(batch, static_cast<cudaStream_t>(stream));
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = "gather_cuda",
                         .expected = "a launch over " + describe(batch),
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
