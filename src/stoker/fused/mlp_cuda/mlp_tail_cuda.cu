// A block takes one sample through the last, small layers, the loss and back, with their weights in shared memory. A
// thread computes whole sums, so that their order is the CPU's.
#include "stoker/base/kernel_works.cuh"
#include "stoker/fused/activations.h"
#include "stoker/fused/mlp_cuda/mlp_device.cuh"
#include "stoker/fused/mlp_cuda/mlp_kernels.h"

namespace stoker {
namespace {

using namespace mlp_device;

constexpr int kTailThreads = 128;

// The factors of the update.
__device__ void tail_rule(const MlpTail& a) {
    const double number = static_cast<double>(*a.steps) + 1;
    const double power1 = pow(a.optimizer.beta1, number);
    const double root2 = sqrt(1 - pow(a.optimizer.beta2, number));
    *a.rule = rule_of(a.optimizer, static_cast<double>(*a.lr), power1, root2);
}

// Queues copies of all weights and of this block's sample.
__device__ void load_tail(const MlpTail& a, float* memory) {
    const int t = static_cast<int>(threadIdx.x);
    const int inputs = a.layers[0].inputs;
    const std::int64_t sample = std::int64_t{blockIdx.x} * inputs;
    for (int j = t; j < inputs; j += kTailThreads) {
        copy_later(memory + a.plan.layers[0].x + j, a.layers[0].x + sample + j);
        if (a.below_derivatives != nullptr) {
            copy_later(memory + a.plan.layers[0].from + j, a.below_derivatives + sample + j);
        }
    }
    for (int l = 0; l < a.count; ++l) {
        const MlpPass& layer = a.layers[l];
        for (int i = t; i < layer.outputs; i += kTailThreads) {
            copy_later(memory + a.plan.layers[l].bias + i, layer.bias + i);
        }
        constexpr int kWarps = kTailThreads / 32;
        const int stride = mlp_tail_stride(layer.inputs);
        float* to = memory + a.plan.layers[l].weights + t / 32 * stride;
        const float* from = layer.weight + t / 32 * layer.inputs;
        for (int i = t / 32; i < layer.outputs; i += kWarps) {
#pragma unroll 4
            for (int j = t % 32; j < layer.inputs; j += 32) {
                copy_later(to + j, from + j);
            }
            to += kWarps * stride;
            from += kWarps * layer.inputs;
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
}

// The results of layer l, in shared memory and for the update.
__device__ void tail_forward(const MlpTail& a, int l, float* memory) {
    const MlpPass& layer = a.layers[l];
    const MlpTailPlace& place = a.plan.layers[l];
    const bool last = l + 1 == a.count;
    const float* const x = memory + place.x;
    for (int i = static_cast<int>(threadIdx.x); i < layer.outputs; i += kTailThreads) {
        const float* const w = memory + place.weights + i * mlp_tail_stride(layer.inputs);
        float sum = memory[place.bias + i];
#pragma unroll 8
        for (int k = 0; k < layer.inputs; ++k) {
            sum = fmaf(w[k], x[k], sum);
        }
        if (last) {
            memory[a.plan.logits + i] = sum;
            continue;
        }
        float derivative = 0;
        sum = activated<R>(a.activation, sum, derivative);
        memory[a.plan.layers[l + 1].x + i] = sum;
        if (a.activation == Activation::gelu) {
            memory[a.plan.layers[l + 1].from + i] = derivative;
        }
        layer.values[std::int64_t{blockIdx.x} * layer.outputs + i] = sum;
    }
    __syncthreads();
}

// The sums that give the loss of a sample.
struct SampleSums {
    float highest;
    float exps;
    float logits;
};

// The gradient of the sample's loss by the logits, as FusedMlp's cross_entropy.
__device__ SampleSums tail_loss_gradient(const MlpTail& a, const float* logits, int classes, float* grads) {
    const int t = static_cast<int>(threadIdx.x);
    const double scale = 1.0 / static_cast<double>(a.samples);
    SampleSums sums{.highest = logits[0], .exps = 0, .logits = 0};
    for (int c = 1; c < classes; ++c) {
        sums.highest = R::max(sums.highest, logits[c]);
    }
    for (int c = t; c < classes; c += kTailThreads) {
        grads[c] = vector_exp<R>(logits[c] - sums.highest);
    }
    __syncthreads();
    for (int c = 0; c < classes; ++c) {
        sums.exps = sums.exps + grads[c];
        sums.logits = sums.logits + logits[c];
    }
    __syncthreads();
    const std::int64_t label = a.label[blockIdx.x];
    const bool known = label >= 0 && label < classes;
    const float factor = known ? static_cast<float>(scale) / sums.exps : nanf("");
    for (int c = t; c < classes; c += kTailThreads) {
        float grad = grads[c] * factor - static_cast<float>(scale * (a.smoothing / classes));
        if (c == label) {
            grad = grad - static_cast<float>(scale * (1 - a.smoothing));
        }
        grads[c] = grad;
    }
    __syncthreads();
    return sums;
}

__device__ void write_loss(const MlpTail& a, const float* logits, int classes, const SampleSums& sums) {
    const std::int64_t label = a.label[blockIdx.x];
    double loss = nan("");
    if (label >= 0 && label < classes) {
        const double log_sum = log(static_cast<double>(sums.exps)) + static_cast<double>(sums.highest);
        loss = log_sum - (1 - a.smoothing) * static_cast<double>(logits[label]) -
               a.smoothing / classes * static_cast<double>(sums.logits);
    }
    a.losses[blockIdx.x] = loss;
}

// Gradients of the layer below l from those of l's outputs.
__device__ void tail_backward(const MlpTail& a, int l, const float* memory, const float* grads, float* below) {
    const MlpPass& layer = a.layers[l];
    const MlpTailPlace& place = a.plan.layers[l];
    for (int j = static_cast<int>(threadIdx.x); j < layer.inputs; j += kTailThreads) {
        float sum = 0;
#pragma unroll 8
        for (int i = 0; i < layer.outputs; ++i) {
            sum = fmaf(memory[place.weights + i * mlp_tail_stride(layer.inputs) + j], grads[i], sum);
        }
        sum = times_derivative<R>(a.activation, sum, memory[place.from + j]);
        if (l > 0) {
            below[j] = sum;
        }
        float* const to = l > 0 ? a.layers[l - 1].grads : a.below_grads;
        to[std::int64_t{blockIdx.x} * layer.inputs + j] = sum;
    }
    __syncthreads();
}

// One block for each sample, and one for the rule.
__global__ void mlp_tail_kernel(const __grid_constant__ MlpTail a) {
    __shared__ float memory[kMlpTailFloats];
    const int t = static_cast<int>(threadIdx.x);
    const int sample = static_cast<int>(blockIdx.x);
    if (sample == a.samples) {
        if (t == 0) {
            tail_rule(a);
        }
        return;
    }
    load_tail(a, memory);
    for (int l = 0; l < a.count; ++l) {
        tail_forward(a, l, memory);
    }
    const MlpPass& last = a.layers[a.count - 1];
    const float* const logits = memory + a.plan.logits;
    float* grads = memory + a.plan.grads[0];
    float* below = memory + a.plan.grads[1];
    const SampleSums sums = tail_loss_gradient(a, logits, last.outputs, grads);
    for (int i = t; i < last.outputs; i += kTailThreads) {
        last.grads[std::int64_t{sample} * last.outputs + i] = grads[i];
    }
    for (int l = a.count; l-- > 0;) {
        if (l > 0 || a.below_grads != nullptr) {
            tail_backward(a, l, memory, grads, below);
        }
        float* const done = grads;
        grads = below;
        below = done;
    }
    if (t == 0) {
        write_loss(a, logits, last.outputs, sums);
    }
}

}  // namespace

bool mlp_tail_cuda_works() {
    return kernel_works(mlp_tail_kernel);
}

void launch_mlp_tail(const MlpTail& tail, void* stream) {
    auto* const on = static_cast<cudaStream_t>(stream);
    mlp_tail_kernel<<<tail.samples + 1, kTailThreads, 0, on>>>(tail);
    require_launched("mlp_tail_kernel");
}

}  // namespace stoker
