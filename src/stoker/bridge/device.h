// Selects the device of a run, and holds a batch in its memory. LibTorch's CUDA library is opened only if a device is
// wanted and a driver is present, so a CPU run does not load it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// Opens LibTorch's CUDA library and registers its kernels. Returns "" on success, else the reason. LibTorch decides
// once whether it has CUDA, at the first query, so call this before any such query.
std::string load_torch_cuda();

// `name` is "auto", "cpu", "cuda" or "cuda:N". "auto" is CUDA if it works, else the CPU; it and "cuda" take the GPU of
// this number among the ranks of the host, or share them where there are fewer. A GPU becomes this thread's current
// one. Throws Unsupported, with the reason, if CUDA is named and does not work.
at::Device pick_device(const std::string& name, int local_rank = 0);

// The GPUs that this process may use. After pick_device has found one.
int cuda_device_count();

// Waits until the device of `last` has computed it.
void wait_for_device(const at::Tensor& last);

// The allocator for batch slots: pinned memory for a GPU if `pin_memory` (device_memory.h), else host memory.
Allocator& slot_allocator(const at::Device& device, bool pin_memory);

// A further field of a batch.
struct DeviceField {
    std::string name;
    at::Tensor tensor;                           // (N, ...)
    std::optional<DeferredNormalize> late = {};  // of an image that is still bytes
};

// One batch as a training step takes it. Images may still be bytes, which normalize_pixels (pixels.h) makes floats.
struct DeviceBatch {
    at::Tensor input;  // of the model: images (N, C, H, W), float32 or bytes, or tokens (N, T) int64
    at::Tensor target =
        {};  // of the loss: classes (N) int64, or what the task says (train/task/task.h); may be undefined
    std::vector<DeviceField> fields = {};
    std::string input_name = std::string(kImageField);  // the field that `input` is
    std::optional<DeferredNormalize> late = {};         // of `input`
    // All tensors lie in a DeviceCopier's slot, where those of later batches will lie, too. False where one was
    // replaced.
    bool in_slot = false;

    std::int64_t size() const { return input.size(0); }
    // A field of `fields`, or `input` by its name. Throws InvalidArgument for another name.
    const at::Tensor& field(std::string_view name) const;
    // The same; null for another name.
    const at::Tensor* find(std::string_view name) const;
    // Samples [begin, begin + samples), as views.
    DeviceBatch narrow(std::int64_t begin, std::int64_t samples) const;
    // All defined tensors of the batch, always in the same order.
    std::vector<at::Tensor> tensors() const;
};

}  // namespace stoker
