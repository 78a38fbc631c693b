// The step of FusedMlp on a GPU: three kernels for a model with one large layer, instead of some sixty. The sums of
// outputs and gradients have FusedMlp's order and functions its operations, so a learning rate that is a float32 number
// gives the same weights, bit for bit; with Adam up to the last bit of two powers in double precision.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stoker/fused/fused_mlp.h"

namespace stoker {

// A layer in the device's memory, with the optimiser's steps so far: float32 scalars.
struct FusedMlpCudaLayer {
    FusedLayer memory;
    float* weight_steps;
    float* bias_steps;
};

// Pointers are device memory. batch.x is float32 (samples, inputs).
struct FusedMlpCudaStep {
    FusedBatch batch;
    const float* lr;   // scalar
    float* mean_loss;  // scalar, out: before the update; NaN where a label is outside the classes
    float* workspace;  // fused_mlp_cuda_workspace floats
};

// Empty if this build has kernels that the current device can load, the last layers fit into a multiprocessor's shared
// memory, and the step is short enough that launches are what it costs; else the reason.
std::string why_no_fused_mlp_cuda(const FusedMlpOptions& options, std::int64_t samples);
std::int64_t fused_mlp_cuda_workspace(const FusedMlpOptions& options, std::int64_t samples);

// `stream` is a cudaStream_t; returns when the work is queued. Throws CudaError if a launch fails, Unsupported in a
// build without CUDA.
void fused_mlp_step_cuda(const FusedMlpOptions& options, std::span<const FusedMlpCudaLayer> layers,
                         const FusedMlpCudaStep& step, void* stream);

}  // namespace stoker
