// data.decode_on: which data sets a device can decode, and the memory that their crops take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct DctCropPlan {
    std::int64_t crop_bytes = 0;  // PackedImages::crop_bytes; 0: a device cannot decode it
    std::string why_not;
};

// Reads a few samples. `specs`: the recipe entries of the transform's ops, for the reason. `indexed`: the loader has an
// index of JPEGs, so that a device can decode plain ones.
DctCropPlan plan_dct_crops(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                           bool indexed);

}  // namespace stoker
