// Each thread owns the channels of one 16-byte vector and walks down the rows, so per-channel values stay in registers
// and a warp reads contiguous memory. Sums over rows are reduced per block, then per channel by a second small kernel,
// always in the same order. Passes alternate their direction: a pass begins with the rows that the last one left in L2.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/kernel_works.cuh"
#include "stoker/models/kernels/batch_norm_cuda.h"

namespace stoker {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;        // rows in flight per thread
constexpr int kMaxBlocks = 1056;  // 8 for each of the 132 multiprocessors of an H100; fewer ones take turns

template <typename T>
constexpr int kVectorSize = 16 / sizeof(T);

template <typename T>
union Pack {
    uint4 bits;
    T values[kVectorSize<T>];
    __device__ Pack() {}
};

// A block has `lanes` threads for neighbouring vectors of a row and kThreads / lanes rows at once.
struct LaunchShape {
    int lanes = 1;          // a power of two
    int row_blocks = 1;     // gridDim.x
    int vector_blocks = 1;  // gridDim.y
};

int vector_size(DType dtype) {
    return static_cast<int>(16 / item_size(dtype));
}

LaunchShape launch_shape(const BatchNormShape& shape) {
    const int vectors = shape.channels / vector_size(shape.dtype);
    LaunchShape launch;
    while (launch.lanes < vectors && launch.lanes < 32) {
        launch.lanes *= 2;
    }
    launch.vector_blocks = (vectors + launch.lanes - 1) / launch.lanes;
    const std::int64_t rows_at_once = std::int64_t{kThreads} / launch.lanes * kUnroll;
    const std::int64_t wanted = (shape.rows + rows_at_once - 1) / rows_at_once;
    launch.row_blocks =
        static_cast<int>(std::min<std::int64_t>(wanted, std::max(kMaxBlocks / launch.vector_blocks, 1)));
    return launch;
}

// Calls visit(row) for this thread's rows, kUnroll at a time so that their loads overlap.
template <bool backwards, typename Load, typename Use>
__device__ void for_rows(std::int64_t rows, int lanes, const Load& load, const Use& use) {
    const int y = static_cast<int>(threadIdx.x) / lanes;
    const std::int64_t rows_of_block = kThreads / lanes;
    const std::int64_t step = rows_of_block * gridDim.x;
    std::int64_t row = std::int64_t{blockIdx.x} * rows_of_block + y;
    for (; row + (kUnroll - 1) * step < rows; row += kUnroll * step) {
        decltype(load(row)) loaded[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            loaded[u] = load(backwards ? rows - 1 - (row + u * step) : row + u * step);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            use(backwards ? rows - 1 - (row + u * step) : row + u * step, loaded[u]);
        }
    }
    for (; row < rows; row += step) {
        const std::int64_t at = backwards ? rows - 1 - row : row;
        use(at, load(at));
    }
}

// Sums of the block's threads that share channels, written as partial sums (gridDim.x, 2, channels).
template <int size>
__device__ void write_partials(const float (&a)[size], const float (&b)[size], int lanes, int first, int channels,
                               float* partials) {
    __shared__ float shared[2][size][kThreads];
#pragma unroll
    for (int i = 0; i < size; ++i) {
        shared[0][i][threadIdx.x] = a[i];
        shared[1][i][threadIdx.x] = b[i];
    }
    for (int half = kThreads / 2; half >= lanes; half /= 2) {
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < half) {
#pragma unroll
            for (int i = 0; i < size; ++i) {
                shared[0][i][threadIdx.x] += shared[0][i][threadIdx.x + half];
                shared[1][i][threadIdx.x] += shared[1][i][threadIdx.x + half];
            }
        }
    }
    if (static_cast<int>(threadIdx.x) < lanes && first < channels) {
        float* to = partials + std::int64_t{blockIdx.x} * 2 * channels + first;
#pragma unroll
        for (int i = 0; i < size; ++i) {
            to[i] = shared[0][i][threadIdx.x];
            to[channels + i] = shared[1][i][threadIdx.x];
        }
    }
}

struct Vectors2 {
    uint4 a, b;
};

// The first channel of this thread.
template <typename T>
__device__ int first_channel(int lanes) {
    return (static_cast<int>(blockIdx.y) * lanes + static_cast<int>(threadIdx.x) % lanes) * kVectorSize<T>;
}

// ---- forward ----

// Sums of x - x[0] and of its square. The first row stands for the mean, so that a large mean does not cancel; a first
// row that is an outlier of k standard deviations costs k^2 roundings.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(const T* __restrict__ x, std::int64_t rows, int channels, int lanes, float* partials) {
    constexpr int size = kVectorSize<T>;
    const int first = first_channel<T>(lanes);
    float sum[size] = {};
    float squares[size] = {};
    if (first < channels) {
        Pack<T> origin;
        origin.bits = *reinterpret_cast<const uint4*>(x + first);
        const auto load = [&](std::int64_t row) { return *reinterpret_cast<const uint4*>(x + row * channels + first); };
        for_rows<true>(rows, lanes, load, [&](std::int64_t, const uint4& bits) {
            Pack<T> pack;
            pack.bits = bits;
#pragma unroll
            for (int i = 0; i < size; ++i) {
                const float d = static_cast<float>(pack.values[i]) - static_cast<float>(origin.values[i]);
                sum[i] += d;
                squares[i] = fmaf(d, d, squares[i]);
            }
        });
    }
    write_partials<size>(sum, squares, lanes, first, channels, partials);
}

constexpr int kFinalLanes = 32;  // threads per channel

// The total of one of the two partial sums of this thread's channel, at lane 0 of its kFinalLanes threads.
__device__ double total_of(const float* partials, int blocks, int channels, int channel, int which) {
    double total = 0;
    for (int block = static_cast<int>(threadIdx.y); block < blocks; block += kFinalLanes) {
        total += partials[(std::int64_t{block} * 2 + which) * channels + channel];
    }
    __shared__ double shared[kFinalLanes][32];
    __syncthreads();
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int i = 0; i < kFinalLanes; ++i) {
        total += shared[i][threadIdx.x];
    }
    return total;
}

template <typename T>
__global__ void __launch_bounds__(32 * kFinalLanes)
    finish_statistics_kernel(const T* __restrict__ x, const float* __restrict__ partials, int blocks, std::int64_t rows,
                             int channels, float momentum, float eps, float* mean, float* inv_std, float* running_mean,
                             float* running_var) {
    const int wanted = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
    const int channel = wanted < channels ? wanted : channels - 1;
    const double count = static_cast<double>(rows);
    const double d = total_of(partials, blocks, channels, channel, 0) / count;
    double variance = total_of(partials, blocks, channels, channel, 1) / count - d * d;
    variance = variance < 0 ? 0 : variance;  // NaN stays
    if (threadIdx.y != 0 || wanted >= channels) {
        return;
    }
    const double average = d + static_cast<float>(x[channel]);
    mean[channel] = static_cast<float>(average);
    inv_std[channel] = static_cast<float>(rsqrt(variance + eps));
    if (running_mean != nullptr) {
        const double unbiased = variance * count / (count - 1);
        running_mean[channel] += momentum * (static_cast<float>(average) - running_mean[channel]);
        running_var[channel] += momentum * (static_cast<float>(unbiased) - running_var[channel]);
    }
}

// The result before relu; forward and backward pass must round alike.
__device__ float normalized(float x, float mean, float scale, float beta) {
    return fmaf(x - mean, scale, beta);
}

template <typename T, bool relu, bool shortcut>
__global__ void __launch_bounds__(kThreads)
    apply_kernel(const T* __restrict__ x, const T* __restrict__ other, std::int64_t rows, int channels, int lanes,
                 const float* __restrict__ gamma, const float* __restrict__ beta, const float* __restrict__ mean,
                 const float* __restrict__ inv_std, T* __restrict__ y, std::uint8_t* __restrict__ mask) {
    constexpr int size = kVectorSize<T>;
    const int first = first_channel<T>(lanes);
    if (first >= channels) {
        return;
    }
    float scale[size], middle[size], offset[size];
#pragma unroll
    for (int i = 0; i < size; ++i) {
        scale[i] = gamma[first + i] * inv_std[first + i];
        middle[i] = mean[first + i];
        offset[i] = beta[first + i];
    }
    const auto load = [&](std::int64_t row) {
        const std::int64_t at = row * channels + first;
        Vectors2 loaded;
        loaded.a = *reinterpret_cast<const uint4*>(x + at);
        if constexpr (shortcut) {
            loaded.b = *reinterpret_cast<const uint4*>(other + at);
        }
        return loaded;
    };
    for_rows<false>(rows, lanes, load, [&](std::int64_t row, const Vectors2& loaded) {
        Pack<T> in, add, out;
        in.bits = loaded.a;
        add.bits = loaded.b;
        unsigned passed = 0;
#pragma unroll
        for (int i = 0; i < size; ++i) {
            float value = normalized(static_cast<float>(in.values[i]), middle[i], scale[i], offset[i]);
            if constexpr (shortcut) {
                value += static_cast<float>(add.values[i]);
            }
            if constexpr (relu) {
                passed |= (value > 0 ? 1U : 0U) << i;
                value = value > 0 || value != value ? value : 0.0F;  // NaN stays, as in torch.relu
            }
            out.values[i] = static_cast<T>(value);
        }
        const std::int64_t at = row * channels + first;
        *reinterpret_cast<uint4*>(y + at) = out.bits;
        if (mask != nullptr) {
            mask[at / size] = static_cast<std::uint8_t>(passed);
        }
    });
}

// ---- backward ----

// The gradient before relu: dy where relu let the value pass.
enum class Sign { none, from_x, from_mask };

struct BackwardLoad {
    uint4 dy, x;
    unsigned passed;
};

template <typename T, Sign sign>
__device__ BackwardLoad load_backward(const T* dy, const T* x, const std::uint8_t* mask, std::int64_t at) {
    BackwardLoad loaded;
    loaded.dy = *reinterpret_cast<const uint4*>(dy + at);
    loaded.x = *reinterpret_cast<const uint4*>(x + at);
    loaded.passed = sign == Sign::from_mask ? mask[at / kVectorSize<T>] : 0;
    return loaded;
}

template <Sign sign>
__device__ float masked(float dy, float x, float mean, float scale, float beta, unsigned passed, int i) {
    if constexpr (sign == Sign::from_mask) {
        return (passed >> i & 1U) != 0 ? dy : 0.0F;
    } else if constexpr (sign == Sign::from_x) {
        return normalized(x, mean, scale, beta) > 0 ? dy : 0.0F;
    }
    return dy;
}

// Sums of g and of g * (x - mean), with g the gradient before relu.
template <typename T, Sign sign>
__global__ void __launch_bounds__(kThreads)
    gradient_sums_kernel(const T* __restrict__ dy, const T* __restrict__ x, const std::uint8_t* __restrict__ mask,
                         std::int64_t rows, int channels, int lanes, const float* __restrict__ gamma,
                         const float* __restrict__ beta, const float* __restrict__ mean,
                         const float* __restrict__ inv_std, float* partials) {
    constexpr int size = kVectorSize<T>;
    const int first = first_channel<T>(lanes);
    float sum[size] = {};
    float products[size] = {};
    if (first < channels) {
        float scale[size], middle[size], offset[size];
#pragma unroll
        for (int i = 0; i < size; ++i) {
            middle[i] = mean[first + i];
            scale[i] = sign == Sign::from_x ? gamma[first + i] * inv_std[first + i] : 0;
            offset[i] = sign == Sign::from_x ? beta[first + i] : 0;
        }
        const auto load = [&](std::int64_t row) { return load_backward<T, sign>(dy, x, mask, row * channels + first); };
        for_rows<true>(rows, lanes, load, [&](std::int64_t, const BackwardLoad& loaded) {
            Pack<T> d, v;
            d.bits = loaded.dy;
            v.bits = loaded.x;
#pragma unroll
            for (int i = 0; i < size; ++i) {
                const float value = static_cast<float>(v.values[i]);
                const float g = masked<sign>(static_cast<float>(d.values[i]), value, middle[i], scale[i], offset[i],
                                             loaded.passed, i);
                sum[i] += g;
                products[i] = fmaf(g, value - middle[i], products[i]);
            }
        });
    }
    write_partials<size>(sum, products, lanes, first, channels, partials);
}

// dbeta and dgamma, and for the last pass the means (2, channels) of g and of g * (x - mean) / variance.
__global__ void __launch_bounds__(32 * kFinalLanes)
    finish_gradients_kernel(const float* __restrict__ partials, int blocks, std::int64_t rows, int channels,
                            const float* __restrict__ inv_std, float* dgamma, float* dbeta, float* means) {
    const int wanted = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
    const int channel = wanted < channels ? wanted : channels - 1;
    const double sum = total_of(partials, blocks, channels, channel, 0);
    const double products = total_of(partials, blocks, channels, channel, 1);
    if (threadIdx.y != 0 || wanted >= channels) {
        return;
    }
    const double scale = inv_std[channel];
    dbeta[channel] = static_cast<float>(sum);
    dgamma[channel] = static_cast<float>(products * scale);
    means[channel] = static_cast<float>(sum / static_cast<double>(rows));
    means[channels + channel] = static_cast<float>(products * scale * scale / static_cast<double>(rows));
}

// dx = gamma * inv_std * (g - mean(g) - (x - mean) * mean(g * (x - mean)) / variance)
template <typename T, Sign sign>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(const T* __restrict__ dy, const T* __restrict__ x, const std::uint8_t* __restrict__ mask,
                    std::int64_t rows, int channels, int lanes, const float* __restrict__ gamma,
                    const float* __restrict__ beta, const float* __restrict__ mean, const float* __restrict__ inv_std,
                    const float* __restrict__ means, T* __restrict__ dx, T* __restrict__ dshortcut) {
    constexpr int size = kVectorSize<T>;
    const int first = first_channel<T>(lanes);
    if (first >= channels) {
        return;
    }
    float scale[size], middle[size], offset[size], of_g[size], of_x[size];
#pragma unroll
    for (int i = 0; i < size; ++i) {
        scale[i] = gamma[first + i] * inv_std[first + i];
        middle[i] = mean[first + i];
        offset[i] = sign == Sign::from_x ? beta[first + i] : 0;
        of_g[i] = means[first + i];
        of_x[i] = means[channels + first + i];
    }
    const auto load = [&](std::int64_t row) { return load_backward<T, sign>(dy, x, mask, row * channels + first); };
    for_rows<false>(rows, lanes, load, [&](std::int64_t row, const BackwardLoad& loaded) {
        Pack<T> d, v, out, through;
        d.bits = loaded.dy;
        v.bits = loaded.x;
#pragma unroll
        for (int i = 0; i < size; ++i) {
            const float value = static_cast<float>(v.values[i]);
            const float g =
                masked<sign>(static_cast<float>(d.values[i]), value, middle[i], scale[i], offset[i], loaded.passed, i);
            through.values[i] = static_cast<T>(g);
            out.values[i] = static_cast<T>(scale[i] * (g - of_g[i] - (value - middle[i]) * of_x[i]));
        }
        const std::int64_t at = row * channels + first;
        *reinterpret_cast<uint4*>(dx + at) = out.bits;
        if (dshortcut != nullptr) {
            *reinterpret_cast<uint4*>(dshortcut + at) = through.bits;
        }
    });
}

// ---- launches ----

void check_launch(const BatchNormShape& shape) {
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        throw CudaError(
            {.where = "batch norm",
             .expected = "a launch over (" + std::to_string(shape.rows) + ", " + std::to_string(shape.channels) + ")",
             .got = cudaGetErrorString(status)});
    }
}

template <typename T>
void forward(const BatchNormShape& shape, const BatchNormForward& op, cudaStream_t stream) {
    const LaunchShape launch = launch_shape(shape);
    const dim3 blocks(static_cast<unsigned>(launch.row_blocks), static_cast<unsigned>(launch.vector_blocks));
    const auto* x = static_cast<const T*>(op.x);
    statistics_kernel<T><<<blocks, kThreads, 0, stream>>>(x, shape.rows, shape.channels, launch.lanes, op.workspace);
    const auto channel_blocks = static_cast<unsigned>((shape.channels + 31) / 32);
    finish_statistics_kernel<T><<<channel_blocks, dim3(32, kFinalLanes), 0, stream>>>(
        x, op.workspace, launch.row_blocks, shape.rows, shape.channels, op.momentum, op.eps, op.mean, op.inv_std,
        op.running_mean, op.running_var);
    const auto apply = op.shortcut != nullptr
                           ? (op.relu ? apply_kernel<T, true, true> : apply_kernel<T, false, true>)
                           : (op.relu ? apply_kernel<T, true, false> : apply_kernel<T, false, false>);
    apply<<<blocks, kThreads, 0, stream>>>(x, static_cast<const T*>(op.shortcut), shape.rows, shape.channels,
                                           launch.lanes, op.gamma, op.beta, op.mean, op.inv_std, static_cast<T*>(op.y),
                                           op.mask);
    check_launch(shape);
}

template <typename T, Sign sign>
void backward_as(const BatchNormShape& shape, const BatchNormBackward& op, cudaStream_t stream) {
    const LaunchShape launch = launch_shape(shape);
    const dim3 blocks(static_cast<unsigned>(launch.row_blocks), static_cast<unsigned>(launch.vector_blocks));
    const auto* dy = static_cast<const T*>(op.dy);
    const auto* x = static_cast<const T*>(op.x);
    float* means = op.workspace + std::int64_t{launch.row_blocks} * 2 * shape.channels;
    gradient_sums_kernel<T, sign><<<blocks, kThreads, 0, stream>>>(
        dy, x, op.mask, shape.rows, shape.channels, launch.lanes, op.gamma, op.beta, op.mean, op.inv_std, op.workspace);
    const auto channel_blocks = static_cast<unsigned>((shape.channels + 31) / 32);
    finish_gradients_kernel<<<channel_blocks, dim3(32, kFinalLanes), 0, stream>>>(
        op.workspace, launch.row_blocks, shape.rows, shape.channels, op.inv_std, op.dgamma, op.dbeta, means);
    gradient_kernel<T, sign><<<blocks, kThreads, 0, stream>>>(dy, x, op.mask, shape.rows, shape.channels, launch.lanes,
                                                              op.gamma, op.beta, op.mean, op.inv_std, means,
                                                              static_cast<T*>(op.dx), static_cast<T*>(op.dshortcut));
    check_launch(shape);
}

template <typename T>
void backward(const BatchNormShape& shape, const BatchNormBackward& op, cudaStream_t stream) {
    if (!op.relu) {
        backward_as<T, Sign::none>(shape, op, stream);
    } else if (op.mask != nullptr) {
        backward_as<T, Sign::from_mask>(shape, op, stream);
    } else {
        backward_as<T, Sign::from_x>(shape, op, stream);
    }
}
}  // namespace

bool batch_norm_cuda_takes(const BatchNormShape& shape) {
    const bool known = shape.dtype == DType::float32 || shape.dtype == DType::float16 || shape.dtype == DType::bfloat16;
    return known && shape.rows > 1 && shape.channels > 0 && shape.channels % vector_size(shape.dtype) == 0 &&
           kernel_works(statistics_kernel<float>);
}

std::int64_t batch_norm_workspace(const BatchNormShape& shape) {
    return (std::int64_t{launch_shape(shape).row_blocks} + 1) * 2 * shape.channels;
}

std::int64_t batch_norm_mask_bytes(const BatchNormShape& shape) {
    return shape.rows * (shape.channels / vector_size(shape.dtype));
}

void batch_norm_forward_cuda(const BatchNormShape& shape, const BatchNormForward& op, void* stream) {
    const auto queue = static_cast<cudaStream_t>(stream);
    const auto run = shape.dtype == DType::bfloat16  ? forward<__nv_bfloat16>
                     : shape.dtype == DType::float16 ? forward<__half>
                                                     : forward<float>;
    run(shape, op, queue);
}

void batch_norm_backward_cuda(const BatchNormShape& shape, const BatchNormBackward& op, void* stream) {
    const auto queue = static_cast<cudaStream_t>(stream);
    const auto run = shape.dtype == DType::bfloat16  ? backward<__nv_bfloat16>
                     : shape.dtype == DType::float16 ? backward<__half>
                                                     : backward<float>;
    run(shape, op, queue);
}

}  // namespace stoker
