// Forward and back through one large layer. A thread computes whole sums, so that their order is the CPU's.
#include "stoker/base/kernel_works.cuh"
#include "stoker/fused/activations.h"
#include "stoker/fused/mlp_cuda/mlp_device.cuh"
#include "stoker/fused/mlp_cuda/mlp_kernels.h"

namespace stoker {
namespace {

using namespace mlp_device;

// ---- forward ----

constexpr int kForwardSamples = 4;
constexpr int kForwardOutputs = 16;
constexpr int kForwardThreads = kForwardSamples * kForwardOutputs;
constexpr int kForwardRows = kForwardSamples + kForwardOutputs;
constexpr int kDepth = 128;  // inputs at a time
constexpr int kStages = 3;   // of copies: one is read, two are under way

// An odd number of vectors, so that eight neighbouring rows are in different banks.
using ForwardRow = float4[kDepth / 4 + 1];

// This thread's share of the copies: the same columns of every second row, rows of x first, then of the weights. Rows
// beyond the last repeat it.
struct ForwardCopies {
    static constexpr int kRowsAtOnce = kForwardThreads / (kDepth / 4);
    static constexpr int kCopies = kForwardRows / kRowsAtOnce;

    const float* from[kCopies];  // at this thread's column
    int column;                  // the first of four
    int inputs;
    bool aligned;

    __device__ explicit ForwardCopies(const MlpForward& a)
        : column(static_cast<int>(threadIdx.x) % (kDepth / 4) * 4), inputs(a.layer.inputs), aligned(a.aligned) {
#pragma unroll
        for (int n = 0; n < kCopies; ++n) {
            const int r = row(n);
            const int sample = min(static_cast<int>(blockIdx.x) * kForwardSamples + r, a.samples - 1);
            const int output =
                min(static_cast<int>(blockIdx.y) * kForwardOutputs + r - kForwardSamples, a.layer.outputs - 1);
            from[n] = column + (r < kForwardSamples ? a.layer.x + std::int64_t{sample} * inputs
                                                    : a.layer.weight + std::int64_t{output} * inputs);
        }
    }

    __device__ static int row(int n) {
        return static_cast<int>(threadIdx.x) / (kDepth / 4) + n * kRowsAtOnce;
    }

    // Queues the copy of inputs `begin` ... `begin` + kDepth - 1.
    __device__ void load(int begin, ForwardRow* rows) const {
        const int left = inputs - begin - column;
        if (left > 0) {
            float4* const to = &rows[row(0)][column / 4];
#pragma unroll
            for (int n = 0; n < kCopies; ++n) {
                copy_four(to + n * kRowsAtOnce * (kDepth / 4 + 1), from[n] + begin, left, aligned);
            }
        }
        __pipeline_commit();
    }
};

__device__ float continued_sum(float sum, const float4* w, const float4* x, int depth) {
#pragma unroll 8
    for (int k = 0; k < depth / 4; ++k) {
        const float4 a = w[k];
        const float4 b = x[k];
        sum = fmaf(a.x, b.x, sum);
        sum = fmaf(a.y, b.y, sum);
        sum = fmaf(a.z, b.z, sum);
        sum = fmaf(a.w, b.w, sum);
    }
    for (int k = depth / 4 * 4; k < depth; ++k) {
        sum = fmaf(reinterpret_cast<const float*>(w)[k], reinterpret_cast<const float*>(x)[k], sum);
    }
    return sum;
}

// Blocks (samples / kForwardSamples, outputs / kForwardOutputs); a thread has one output of one sample.
__global__ void mlp_forward_kernel(const __grid_constant__ MlpForward a) {
    __shared__ float4 rows[kStages][kForwardRows][kDepth / 4 + 1];
    const int t = static_cast<int>(threadIdx.x);
    const int sample = static_cast<int>(blockIdx.x) * kForwardSamples + t / kForwardOutputs;
    const int output = static_cast<int>(blockIdx.y) * kForwardOutputs + t % kForwardOutputs;
    const bool inside = sample < a.samples && output < a.layer.outputs;
    const ForwardCopies copies(a);
    copies.load(0, rows[0]);
    copies.load(kDepth, rows[1]);
    float sum = inside ? a.layer.bias[output] : 0.0F;
    for (int from = 0, stage = 0; from < a.layer.inputs; from += kDepth, stage = (stage + 1) % kStages) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();  // the stage is there, and the one before it is no longer read
        copies.load(from + (kStages - 1) * kDepth, rows[(stage + kStages - 1) % kStages]);
        sum = continued_sum(sum, rows[stage][kForwardSamples + t % kForwardOutputs], rows[stage][t / kForwardOutputs],
                            min(kDepth, a.layer.inputs - from));
    }
    __pipeline_wait_prior(0);
    if (inside) {
        const std::int64_t at = std::int64_t{sample} * a.layer.outputs + output;
        float derivative = 0;
        a.layer.values[at] = activated<R>(a.activation, sum, derivative);
        if (a.activation == Activation::gelu) {
            a.layer.derivatives[at] = derivative;
        }
    }
}

// ---- back ----

constexpr int kBackwardSamples = 4;
constexpr int kBackwardInputs = 32;
constexpr int kBackwardThreads = kBackwardSamples * kBackwardInputs;

// Blocks (samples / kBackwardSamples, inputs / kBackwardInputs); a thread has one input of one sample. A warp reads
// whole lines of the weights.
__global__ void mlp_backward_kernel(const __grid_constant__ MlpBackward a) {
    const int t = static_cast<int>(threadIdx.x);
    const int sample = static_cast<int>(blockIdx.x) * kBackwardSamples + t / kBackwardInputs;
    const int input = static_cast<int>(blockIdx.y) * kBackwardInputs + t % kBackwardInputs;
    if (sample >= a.samples || input >= a.layer.inputs) {
        return;
    }
    const float* const grads = a.layer.grads + std::int64_t{sample} * a.layer.outputs;
    const float* const weights = a.layer.weight + input;
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < a.layer.outputs; ++i) {
        sum = fmaf(weights[std::int64_t{i} * a.layer.inputs], grads[i], sum);
    }
    const std::int64_t at = std::int64_t{sample} * a.layer.inputs + input;
    a.below_grads[at] = times_derivative<R>(a.activation, sum, a.below_from[at]);
}

}  // namespace

bool mlp_layers_cuda_work() {
    return kernel_works(mlp_forward_kernel) && kernel_works(mlp_backward_kernel);
}

void launch_mlp_forward(const MlpForward& forward, void* stream) {
    const dim3 blocks(blocks_of(forward.samples, kForwardSamples), blocks_of(forward.layer.outputs, kForwardOutputs));
    auto* const on = static_cast<cudaStream_t>(stream);
    mlp_forward_kernel<<<blocks, kForwardThreads, 0, on>>>(forward);
    require_launched("mlp_forward_kernel");
}

void launch_mlp_backward(const MlpBackward& backward, void* stream) {
    const dim3 blocks(blocks_of(backward.samples, kBackwardSamples), blocks_of(backward.layer.inputs, kBackwardInputs));
    auto* const on = static_cast<cudaStream_t>(stream);
    mlp_backward_kernel<<<blocks, kBackwardThreads, 0, on>>>(backward);
    require_launched("mlp_backward_kernel");
}

}  // namespace stoker
