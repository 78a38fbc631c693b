// Selects the device of a run and copies batches to it. LibTorch's CUDA library is opened only if a device is wanted
// and a driver is present, so a CPU run does not load it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// Opens LibTorch's CUDA library and registers its kernels. Returns "" on success, else the reason. LibTorch decides
// once whether it has CUDA, at the first query, so call this before any such query.
std::string load_torch_cuda();

// `name` is "auto", "cpu", "cuda" or "cuda:N". "auto" is CUDA if it works, else the CPU. Throws Unsupported, with the
// reason, if CUDA is named and does not work.
at::Device pick_device(const std::string& name);

// The allocator for batch slots: pinned memory for CUDA if `pin_memory`, else host memory.
Allocator& slot_allocator(const at::Device& device, bool pin_memory);

// A further field of a batch.
struct DeviceField {
    std::string name;
    at::Tensor tensor;  // (N, ...)
};

// One batch as a training step reads it.
struct DeviceBatch {
    at::Tensor input;  // of the model: images (N, C, H, W) float32, or tokens (N, T) int64
    at::Tensor target =
        {};  // of the loss: classes (N) int64, or what the task says (train/task/task.h); may be undefined
    std::vector<DeviceField> fields = {};
    std::string input_name = std::string(kImageField);  // the field that `input` is

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

// The fields of a batch that a DeviceCopier copies.
struct BatchFields {
    std::string input = std::string(kImageField);
    std::string target = std::string(kLabelField);  // may be `input`
    std::vector<std::string> more = {};
};

// The bytes of these fields in a batch.
std::int64_t bytes_of(const Batch& batch, const BatchFields& fields);

// Copies batches to a device asynchronously and holds each batch until its copy is complete: the loader would otherwise
// overwrite the slot during the copy. On the CPU nothing is copied.
class DeviceCopier {
  public:
    explicit DeviceCopier(at::Device device, BatchFields fields = {}) : device_(device), fields_(std::move(fields)) {}
    DeviceCopier(const DeviceCopier&) = delete;
    DeviceCopier& operator=(const DeviceCopier&) = delete;
    ~DeviceCopier();

    // Throws InvalidArgument for a field that the batch does not have, or a ragged one.
    DeviceBatch copy(const std::shared_ptr<Batch>& batch);

  private:
    struct InFlight {
        std::shared_ptr<Batch> batch;
        c10::Event copied;
    };

    at::Device device_;
    BatchFields fields_;
    std::deque<InFlight> in_flight_;
};

}  // namespace stoker
