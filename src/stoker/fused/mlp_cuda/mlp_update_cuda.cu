// Computes the gradients of all weights, and updates each weight as soon as its gradient is known. A thread computes
// whole sums, so that their order is the CPU's.
#include "stoker/base/kernel_works.cuh"
#include "stoker/fused/activations.h"
#include "stoker/fused/mlp_cuda/mlp_device.cuh"
#include "stoker/fused/mlp_cuda/mlp_kernels.h"

namespace stoker {
namespace {

using namespace mlp_device;

constexpr int kUpdateThreads = 128;
constexpr int kUpdateSamples = 64;  // at a time
constexpr int kRowsEach = 2;        // of a thread
constexpr int kColumnsEach = 4;
constexpr int kBiasParts = 16;  // sample_sums of row_kernels.h

// A weight and its state in the optimiser; state that the rule does not use is zero.
struct WeightState {
    float weight;
    float first;
    float second;
};

__device__ bool has_first(UpdateRule::Kind kind) {
    return kind != UpdateRule::Kind::sgd;
}
__device__ bool has_second(UpdateRule::Kind kind) {
    return kind == UpdateRule::Kind::adam;
}

__device__ void update(const UpdateRule& rule, float grad, WeightState& s) {
    using Kind = UpdateRule::Kind;
    switch (rule.kind) {
        case Kind::sgd:
            s.weight = updated_weight<R, Kind::sgd>(rule, s.weight, grad, s.first, s.second);
            break;
        case Kind::momentum:
            s.weight = updated_weight<R, Kind::momentum>(rule, s.weight, grad, s.first, s.second);
            break;
        case Kind::adam:
            s.weight = updated_weight<R, Kind::adam>(rule, s.weight, grad, s.first, s.second);
            break;
    }
}

// Four neighbours of a matrix of `columns` columns in a row of it, the first at `column`.
struct Four {
    std::int64_t at;
    int count;  // that lie inside the row
    bool aligned;

    __device__ void load(const float* from, float (&values)[kColumnsEach]) const {
        if (aligned && count == kColumnsEach) {
            const float4 four = *reinterpret_cast<const float4*>(from + at);
            values[0] = four.x;
            values[1] = four.y;
            values[2] = four.z;
            values[3] = four.w;
            return;
        }
#pragma unroll
        for (int c = 0; c < kColumnsEach; ++c) {
            values[c] = c < count ? from[at + c] : 0.0F;
        }
    }

    __device__ void store(const float (&values)[kColumnsEach], float* to) const {
        if (aligned && count == kColumnsEach) {
            *reinterpret_cast<float4*>(to + at) = float4{values[0], values[1], values[2], values[3]};
            return;
        }
#pragma unroll
        for (int c = 0; c < kColumnsEach; ++c) {
            if (c < count) {
                to[at + c] = values[c];
            }
        }
    }
};

// The last block: the mean loss, and the optimiser's steps.
__device__ void finish_step(const MlpUpdate& a) {
    const int t = static_cast<int>(threadIdx.x);
    if (t < a.count) {
        *a.layers[t].layer.weight_steps += 1;
        *a.layers[t].layer.bias_steps += 1;
    }
    if (t < 32) {
        double sum = 0;
        for (int s = t; s < a.samples; s += 32) {
            sum += a.losses[s];
        }
        for (int half = 16; half > 0; half /= 2) {
            sum += __shfl_down_sync(~0U, sum, half);
        }
        if (t == 0) {
            *a.mean_loss = static_cast<float>(sum / a.samples);
        }
    }
}

// Queues the copy of a part (kUpdateSamples, 4 * kVectors) of a matrix (samples, width), from sample `first` and column
// `column` on. What lies outside is not written.
template <int kVectors>
__device__ void load_part(const float* from, int width, int samples, int first, int column, bool aligned,
                          float4 (&to)[kUpdateSamples][kVectors]) {
    constexpr int kRowsAtOnce = kUpdateThreads / kVectors;
    const int vector = static_cast<int>(threadIdx.x) % kVectors;
    const int row = static_cast<int>(threadIdx.x) / kVectors;
    const int j = column + 4 * vector;
    if (j >= width) {
        return;
    }
    const float* at = from + std::int64_t{first + row} * width + j;
    const int left = samples - first - row;
#pragma unroll
    for (int n = 0; n < kUpdateSamples / kRowsAtOnce; ++n) {
        if (n * kRowsAtOnce < left) {
            copy_four(&to[row + n * kRowsAtOnce][vector], at, width - j, aligned);
        }
        at += kRowsAtOnce * width;
    }
}

// This thread's sums over samples: gradients of its weights, and in the first columns' blocks of a bias.
struct UpdateSums {
    float grads[kRowsEach][kColumnsEach] = {};
    float parts[kBiasParts] = {};

    __device__ void add(float2 grad, float4 x) {
        const float g[kRowsEach] = {grad.x, grad.y};
        const float v[kColumnsEach] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
            for (int c = 0; c < kColumnsEach; ++c) {
                grads[r][c] = fmaf(g[r], v[c], grads[r][c]);
            }
        }
    }

    // `grads`: of this thread's bias in the first of the samples.
    __device__ void add_to_bias(const float* grads, int samples) {
        for (int s = 0; s < samples; s += kBiasParts) {
#pragma unroll
            for (int part = 0; part < kBiasParts; ++part) {
                if (s + part < samples) {
                    parts[part] = parts[part] + grads[(s + part) * kMlpUpdateRows];
                }
            }
        }
    }

    // Halves are added until one part is left.
    __device__ float bias() {
#pragma unroll
        for (int halving = 0; halving < 4; ++halving) {
            const int half = kBiasParts / 2 >> halving;
#pragma unroll
            for (int part = 0; part < kBiasParts / 2; ++part) {
                if (part < half) {
                    parts[part] = parts[part] + parts[part + half];
                }
            }
        }
        return parts[0];
    }
};

// The weights of this thread with the optimiser's state, in registers: kRowsEach rows, from `row` and `column` on.
struct ThreadWeights {
    Four places[kRowsEach];
    float weight[kRowsEach][kColumnsEach];
    float first[kRowsEach][kColumnsEach] = {};
    float second[kRowsEach][kColumnsEach] = {};

    __device__ ThreadWeights(const MlpUpdated& layer, UpdateRule::Kind kind, int row, int column) {
        const FusedLayer& from = layer.layer.memory;
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r) {
            places[r] = {.at = std::int64_t{row + r} * layer.inputs + column,
                         .count = row + r < layer.outputs ? min(kColumnsEach, max(layer.inputs - column, 0)) : 0,
                         .aligned = layer.aligned_x};
            places[r].load(from.weight, weight[r]);
            if (has_first(kind)) {
                places[r].load(from.weight_first, first[r]);
            }
            if (has_second(kind)) {
                places[r].load(from.weight_second, second[r]);
            }
        }
    }

    __device__ void update_with(const UpdateRule& rule, const float (&grads)[kRowsEach][kColumnsEach]) {
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
            for (int c = 0; c < kColumnsEach; ++c) {
                WeightState state{weight[r][c], first[r][c], second[r][c]};
                update(rule, grads[r][c], state);
                weight[r][c] = state.weight;
                first[r][c] = state.first;
                second[r][c] = state.second;
            }
        }
    }

    __device__ void store(const FusedLayer& to, UpdateRule::Kind kind) const {
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r) {
            places[r].store(weight[r], to.weight);
            if (has_first(kind)) {
                places[r].store(first[r], to.weight_first);
            }
            if (has_second(kind)) {
                places[r].store(second[r], to.weight_second);
            }
        }
    }
};

__device__ void update_bias(const UpdateRule& rule, const FusedLayer& layer, int i, float grad) {
    WeightState state{layer.bias[i], has_first(rule.kind) ? layer.bias_first[i] : 0.0F,
                      has_second(rule.kind) ? layer.bias_second[i] : 0.0F};
    update(rule, grad, state);
    layer.bias[i] = state.weight;
    if (has_first(rule.kind)) {
        layer.bias_first[i] = state.first;
    }
    if (has_second(rule.kind)) {
        layer.bias_second[i] = state.second;
    }
}

// A block has kMlpUpdateRows x kMlpUpdateColumns weights of one layer; the blocks of its first columns also have its
// biases. The weights are loaded while the samples are on their way.
__global__ void mlp_update_kernel(const __grid_constant__ MlpUpdate a) {
    __shared__ float4 x[kUpdateSamples][kMlpUpdateColumns / 4];
    __shared__ float4 grads[kUpdateSamples][kMlpUpdateRows / 4];
    const int block = static_cast<int>(blockIdx.x);
    if (block + 1 == static_cast<int>(gridDim.x)) {
        finish_step(a);
        return;
    }
    int l = a.count - 1;
    while (block < a.layers[l].first_block) {
        --l;
    }
    const MlpUpdated& layer = a.layers[l];
    const int row0 = (block - layer.first_block) / layer.column_blocks * kMlpUpdateRows;
    const int column0 = (block - layer.first_block) % layer.column_blocks * kMlpUpdateColumns;
    const auto load = [&](int sample) {
        load_part(layer.x, layer.inputs, a.samples, sample, column0, layer.aligned_x, x);
        load_part(layer.grads, layer.outputs, a.samples, sample, row0, layer.aligned_grads, grads);
        __pipeline_commit();
    };
    load(0);
    const int t = static_cast<int>(threadIdx.x);
    const int vector = t % (kMlpUpdateColumns / kColumnsEach);
    const int pair = t / (kMlpUpdateColumns / kColumnsEach);
    const bool has_bias = column0 == 0 && t < kMlpUpdateRows && row0 + t < layer.outputs;
    ThreadWeights weights(layer, a.kind, row0 + pair * kRowsEach, column0 + vector * kColumnsEach);

    UpdateSums sums;
    for (int begin = 0; begin < a.samples; begin += kUpdateSamples) {
        if (begin > 0) {
            __syncthreads();
            load(begin);
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        const int samples = min(kUpdateSamples, a.samples - begin);
#pragma unroll 8
        for (int s = 0; s < samples; ++s) {
            sums.add(reinterpret_cast<const float2*>(grads[s])[pair], x[s][vector]);
        }
        if (has_bias) {
            sums.add_to_bias(&reinterpret_cast<const float*>(grads[0])[t], samples);
        }
    }
    const UpdateRule rule = *a.rule;
    weights.update_with(rule, sums.grads);
    weights.store(layer.layer.memory, a.kind);
    if (has_bias) {
        update_bias(rule, layer.layer.memory, row0 + t, sums.bias());
    }
}

}  // namespace

bool mlp_update_cuda_works() {
    return kernel_works(mlp_update_kernel);
}

void launch_mlp_update(const MlpUpdate& update, int blocks, void* stream) {
    auto* const on = static_cast<cudaStream_t>(stream);
    mlp_update_kernel<<<blocks + 1, kUpdateThreads, 0, on>>>(update);  // one more for the loss and the steps
    require_launched("mlp_update_kernel");
}

}  // namespace stoker
