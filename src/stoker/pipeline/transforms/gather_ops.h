// The ops after the first random one as the parameters of one gather (ops/gather.h), for images that lie on a device:
// drawn from the same random streams, for the same pixels.
#pragma once

#include <optional>
#include <string>

#include "stoker/base/rng.h"
#include "stoker/ops/gather.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// The first op that a gather cannot do. Empty where a gather can do them all: at most one crop, and a
// random_resized_crop before any flip; flips; then the ops of output_ops.h.
std::optional<HostOp> find_not_gathered(const OpSlice& slice);

// What these ops have in common for all samples, and the size of their output for images of size `image`.
struct GatherPlan {
    GatherOps ops;
    ImageSize to;
};
GatherPlan gather_plan(const OpSlice& slice, ImageSize image);

// Draws for one image of size `image`; sets everything but `image`. Throws what the ops throw.
GatherDraw draw_gather(const OpSlice& slice, ImageSize image, RngKey key);

}  // namespace stoker
