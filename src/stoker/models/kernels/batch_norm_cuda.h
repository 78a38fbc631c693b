// Batch norm in training on the device, with what follows it in a residual network: the shortcut's addition and relu.
// One pass over the activations reads the statistics, one writes the result; as separate operations they take five.
#pragma once

#include <cstdint>

#include "stoker/base/dtype.h"

namespace stoker {

// Activations (rows, channels) in memory: an image batch (N, C, H, W) in channels-last layout has N*H*W rows.
struct BatchNormShape {
    std::int64_t rows = 0;
    int channels = 0;
    DType dtype = DType::float32;  // float32, float16 or bfloat16
};

// All pointers are device memory. Per-channel values are float32 (channels).
struct BatchNormForward {
    const void* x = nullptr;         // (rows, channels)
    const void* shortcut = nullptr;  // (rows, channels), added before relu; may be null
    const float* gamma = nullptr;
    const float* beta = nullptr;
    float* running_mean = nullptr;  // updated with `momentum`; may be null
    float* running_var = nullptr;
    float momentum = 0.1F;
    float eps = 1e-5F;
    bool relu = false;
    void* y = nullptr;             // (rows, channels)
    std::uint8_t* mask = nullptr;  // a byte for each vector, a bit for each value that relu let pass; may be null
    float* mean = nullptr;         // out: of this batch
    float* inv_std = nullptr;      // out: 1 / sqrt(variance + eps)
    float* workspace = nullptr;    // batch_norm_workspace floats
};

struct BatchNormBackward {
    const void* dy = nullptr;  // (rows, channels)
    const void* x = nullptr;
    const std::uint8_t* mask = nullptr;  // of the forward pass; without it relu's sign follows from x
    const float* gamma = nullptr;
    const float* beta = nullptr;
    const float* mean = nullptr;
    const float* inv_std = nullptr;
    bool relu = false;
    void* dx = nullptr;         // (rows, channels)
    void* dshortcut = nullptr;  // (rows, channels); null without a shortcut
    float* dgamma = nullptr;
    float* dbeta = nullptr;
    float* workspace = nullptr;
};

// True if this build has kernels that the current device can load, and they take this shape: whole vectors of 16 bytes,
// more than one row.
bool batch_norm_cuda_takes(const BatchNormShape& shape);
std::int64_t batch_norm_workspace(const BatchNormShape& shape);
std::int64_t batch_norm_mask_bytes(const BatchNormShape& shape);

// `stream` is a cudaStream_t; both return when the work is queued. Results do not depend on the order in which blocks
// run. Throws CudaError if a launch fails, Unsupported in a build without CUDA.
void batch_norm_forward_cuda(const BatchNormShape& shape, const BatchNormForward& op, void* stream);
void batch_norm_backward_cuda(const BatchNormShape& shape, const BatchNormBackward& op, void* stream);

}  // namespace stoker
