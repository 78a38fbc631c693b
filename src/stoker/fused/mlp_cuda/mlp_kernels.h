// The arguments of a step's kernels, and their launches. `stream` is a cudaStream_t; a launch returns when its work is
// queued, and throws CudaError if it fails. Internal to mlp_cuda/.
#pragma once

#include <cstdint>

#include "stoker/fused/mlp_cuda/fused_mlp_cuda.h"
#include "stoker/fused/update_rule.h"

namespace stoker {

constexpr int kMlpLayers = 8;  // at most

// A layer without the optimiser's state. Matrices of samples are (samples, features).
struct MlpPass {
    const float* x;       // (samples, inputs): the results of the layer below
    const float* weight;  // (outputs, inputs)
    const float* bias;    // (outputs)
    float* values;        // (samples, outputs), after the activation; unused in the last layer
    float* derivatives;   // the same shape, gelu only
    float* grads;         // the same shape, of the loss by the activation's input
    int inputs;
    int outputs;
};

// ---- a large layer: mlp_layers_cuda.cu ----

struct MlpForward {
    MlpPass layer;
    int samples;
    Activation activation;
    bool aligned;  // rows of x and of the weights begin at multiples of 16 bytes
};

struct MlpBackward {
    MlpPass layer;
    const float* below_from;  // (samples, inputs)
    float* below_grads;       // the same shape
    int samples;
    Activation activation;
};

// True if this build has the kernels for the current device.
bool mlp_layers_cuda_work();
void launch_mlp_forward(const MlpForward& forward, void* stream);
void launch_mlp_backward(const MlpBackward& backward, void* stream);

// ---- the last layers, the loss and back: mlp_tail_cuda.cu ----

constexpr int kMlpTailFloats = 12288;  // of a block's shared memory

constexpr int mlp_tail_stride(int inputs) {
    return inputs | 1;  // odd: threads that read neighbouring rows use different banks
}

// The offsets of a layer's part of the shared memory.
struct MlpTailPlace {
    int weights;  // (outputs, mlp_tail_stride(inputs))
    int bias;     // (outputs)
    int x;        // (inputs)
    int from;     // (inputs): what x was computed from, for the derivative; x itself but for gelu
};

struct MlpTailPlan {
    MlpTailPlace layers[kMlpLayers];
    int logits;
    int grads[2];  // of the outputs of a layer and of the one below, in turn
    int floats;    // in all
};

struct MlpTail {
    MlpPass layers[kMlpLayers];
    MlpTailPlan plan;
    int count;
    const float* below_derivatives;  // (samples, inputs) of the layer below, gelu only
    float* below_grads;              // the same shape; null for the first layer
    const std::int64_t* label;
    double* losses;  // (samples)
    int samples;
    Activation activation;
    double smoothing;
    // The factors of the update, which a separate block computes.
    FusedOptimizer optimizer;
    const float* lr;
    const float* steps;
    UpdateRule* rule;
};

bool mlp_tail_cuda_works();
void launch_mlp_tail(const MlpTail& tail, void* stream);

// ---- all weights: mlp_update_cuda.cu ----

constexpr int kMlpUpdateRows = 16;  // of the weights that a block updates
constexpr int kMlpUpdateColumns = 64;

struct MlpUpdated {
    const float* x;      // (samples, inputs)
    const float* grads;  // (samples, outputs)
    FusedMlpCudaLayer layer;
    int inputs;
    int outputs;
    int first_block;
    int column_blocks;
    bool aligned_x;      // rows of x, of the weights and of their state begin at multiples of 16 bytes
    bool aligned_grads;  // rows of grads
};

struct MlpUpdate {
    MlpUpdated layers[kMlpLayers];
    int count;
    int samples;
    UpdateRule::Kind kind;
    const UpdateRule* rule;
    const double* losses;  // (samples)
    float* mean_loss;
};

bool mlp_update_cuda_works();
// `blocks`: of all layers.
void launch_mlp_update(const MlpUpdate& update, int blocks, void* stream);

}  // namespace stoker
