// Memory of Stoker as an array object that NumPy, torch and JAX take without a copy (buffer protocol and DLPack).
#pragma once

#include <nanobind/nanobind.h>

#include "stoker/base/buffer.h"
#include "stoker/base/tensor_view.h"
#include "stoker/pipeline/batch.h"

namespace stoker::python {

// `owner` keeps the memory alive as long as the array. A channels_last view of shape (N, C, H, W) gets such strides.
nanobind::object as_array(const TensorView& view, nanobind::handle owner, FieldLayout layout = FieldLayout::plain);

// The same for memory that the array owns.
nanobind::object as_array(Buffer memory, DType dtype, const Shape& shape);

}  // namespace stoker::python
