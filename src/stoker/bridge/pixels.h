// Images that were copied as bytes become what the model takes: (x / 255 - mean) / std in its memory format.
#pragma once

#include "stoker/bridge/device.h"

namespace stoker {

// Replaces all images of the batch that are bytes, or GatherDraws (ops/gather.h), by floats of `type`: float32, float16
// or bfloat16. Float32 has the bits of a loader that normalises; the 16-bit types are rounded from it as LibTorch's
// casts do. On a GPU that the build has code for it takes one kernel, or three for draws that change colours; else
// normalize_pixels_reference, and for draws, whose images are then in host memory, `gather` and `colors`. Can be
// captured in a graph.
void normalize_pixels(DeviceBatch& batch, at::ScalarType type = at::kFloat);

// The same for one field; without `deferred` it is returned unchanged.
at::Tensor pixels_of(const at::Tensor& field, const std::optional<DeferredNormalize>& deferred, at::ScalarType type);

// The same in LibTorch's operations on one field (N, C, H, W).
at::Tensor normalize_pixels_reference(const at::Tensor& bytes, const DeferredNormalize& deferred, at::ScalarType type);

}  // namespace stoker
