// A block writes a band of rows of one sample: (x: the sample, y: the band). One thread per pixel of the output, in the
// order of memory.
#include <cuda_runtime_api.h>

#include <string>

// nvcc warns that BasicImageView<const T> converts to itself.
#pragma nv_diag_suppress 554
#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/ops/assemble_cuda.h"
#include "stoker/ops/erasing_device.cuh"
#include "stoker/ops/resize_device.cuh"

namespace stoker {
namespace {

using namespace resize_device;

constexpr int kThreads = 256;

struct AssembleArguments {
    const std::uint8_t* memory;
    const AssembleDraw* draws;
    int height;  // of the output
    int width;
    bool erases;
    ErasedBytes erased;
};

// draws (n), out (n, height, width, channels)
template <int channels>
__global__ void assemble_kernel(const __grid_constant__ AssembleArguments a, std::uint8_t* __restrict__ out) {
    __shared__ int first[kAssembleOutputs];
    __shared__ int count[kAssembleOutputs];
    __shared__ int weights[kAssembleWeights];
    const AssembleDraw draw = a.draws[blockIdx.x];
    const int top = static_cast<int>(blockIdx.y) * kAssembleBand;  // of the band
    const int lines = a.height - top < kAssembleBand ? a.height - top : kAssembleBand;
    // The rows of a vertical flip are the same in the other order.
    const int begin = draw.flip_vertical != 0 ? a.height - top - lines : top;
    const bool cubic = draw.interpolation == Interpolation::bicubic;
    const Axis columns{first, count, weights, stride_of(draw.source.width, draw.full.width, cubic)};
    const Axis rows{first + a.width, count + a.width, weights + a.width * columns.stride,
                    stride_of(draw.source.height, draw.full.height, cubic)};
    if (draw.image != 0) {
        build_axis(draw.source.height, draw.full.height, draw.top + begin, lines, cubic, rows);
        build_axis(draw.source.width, draw.full.width, draw.left, a.width, cubic, columns);
    }
    __syncthreads();
    const std::int64_t row = std::int64_t{draw.window.width} * channels;
    const std::uint8_t* const origin =
        a.memory + draw.image - draw.window.top * row - std::int64_t{draw.window.left} * channels;
    std::uint8_t* const to = out + (std::int64_t{blockIdx.x} * a.height + top) * a.width * channels;
    for (int v = static_cast<int>(threadIdx.x); v < lines * a.width; v += static_cast<int>(blockDim.x)) {
        const int line = v / a.width;
        const int x = v - line * a.width;
        int values[channels] = {};
        if (draw.image != 0 && a.erases && contains(draw.output.erased, Place{top + line, x, 0})) {
#pragma unroll
            for (int c = 0; c < channels; ++c) {
                values[c] = erased_byte(a.erased, draw.output, Place{top + line, x, c});
            }
        } else if (draw.image != 0) {
            const Taps y_taps = taps_of(rows, draw.flip_vertical != 0 ? lines - 1 - line : line);
            const Taps x_taps = taps_of(columns, draw.flip_horizontal != 0 ? a.width - 1 - x : x);
            resize_values(origin, row, channels, y_taps, x_taps, values);
        }
#pragma unroll
        for (int c = 0; c < channels; ++c) {
            to[v * channels + c] = static_cast<std::uint8_t>(values[c]);
        }
    }
}

// Without fmt: nvcc cannot evaluate its compile-time checks.
std::string describe(const AssembleBatch& batch) {
    return std::to_string(batch.n) + " images of " + std::to_string(batch.to.height) + " x " +
           std::to_string(batch.to.width) + " x " + std::to_string(batch.channels);
}

}  // namespace

bool assemble_cuda_works() {
    return kernel_works(assemble_kernel<3>);
}

void assemble_cuda(const AssembleBatch& batch, void* stream) {
    require_assemble(batch);
    if (batch.n == 0) {
        return;  // a launch of no blocks would be an error
    }
    const AssembleArguments a{.memory = reinterpret_cast<const std::uint8_t*>(batch.memory),
                              .draws = batch.draws,
                              .height = batch.to.height,
                              .width = batch.to.width,
                              .erases = !batch.colors,
                              .erased = {.color = packed_color(batch.erased_value.value_or(Color{})),
                                         .noise = !batch.erased_value.has_value(),
                                         .channels = batch.channels}};
    const dim3 blocks(static_cast<unsigned>(batch.n),
                      static_cast<unsigned>((batch.to.height + kAssembleBand - 1) / kAssembleBand));
    auto* const on = static_cast<cudaStream_t>(stream);
    switch (batch.channels) {
        case 1:
            assemble_kernel<1><<<blocks, kThreads, 0, on>>>(a, batch.out);
            break;
        case 2:
            assemble_kernel<2><<<blocks, kThreads, 0, on>>>(a, batch.out);
            break;
        case 3:
            assemble_kernel<3><<<blocks, kThreads, 0, on>>>(a, batch.out);
            break;
        default:
            assemble_kernel<4><<<blocks, kThreads, 0, on>>>(a, batch.out);
    }
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError({.where = "assemble_cuda",
                         .expected = "a launch over " + describe(batch),
                         .got = cudaGetErrorString(status)});
    }
}

}  // namespace stoker
