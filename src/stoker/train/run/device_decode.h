// data.decode_on = "device": the loader leaves the decoding of dct records to the device.
#pragma once

#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Sets `options.cut_bytes`. `specs`: the recipe entries of the transform's ops. Throws Unsupported for a device that
// cannot decode, and InvalidArgument for a data set or ops that it cannot take.
void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options);

}  // namespace stoker
