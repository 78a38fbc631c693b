// The buckets of images that aspect_crop brings to one of several sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// For each sample the number of its size in `op.sizes`. One that cannot be read has the most frequent, whose samples
// can replace it. Opens all samples, with all cores. Throws the first sample's error, located, if none can be read.
std::vector<std::int64_t> aspect_buckets(const Dataset& dataset, const Transform& transform, const AspectCropOp& op);

}  // namespace stoker
