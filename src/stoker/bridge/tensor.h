// Batch fields as LibTorch tensors without a copy. A tensor holds a reference to its batch, so the slot returns to the
// loader when its last tensor is destroyed. Keep it until an asynchronous copy from it is done, as DeviceCopier does.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "stoker/base/tensor_view.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

at::ScalarType scalar_type(DType dtype);
// Throws Unsupported for a type without a DType.
DType dtype_of_scalar(at::ScalarType type);

// The field as a tensor over the batch's own memory: (N, shape...). A channels_last field is a
// channels-last (N, C, H, W) tensor.
at::Tensor as_tensor(const std::shared_ptr<Batch>& batch, std::string_view field);

// A view of a contiguous tensor in host memory, which must outlive it.
TensorView view_of(const at::Tensor& tensor);

// A new tensor with the view's elements.
at::Tensor copy_of(const TensorView& view);

// The view's memory as a tensor that keeps `owner` alive and is not to be written to; a copy where the memory is not
// aligned for its type.
at::Tensor as_tensor(const TensorView& view, const std::shared_ptr<const void>& owner);

}  // namespace stoker
