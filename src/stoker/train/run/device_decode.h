// data.decode_on: the loader leaves the decoding of dct records to the device, all of it or a part.
#pragma once

#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Replaces PixelImages by PackedImages. `specs`: the recipe entries of the transform's ops. Throws Unsupported for a
// device that cannot decode, and InvalidArgument for a data set or ops that it cannot take.
void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options);

// The same with PackedImages::shared if the device can decode. Otherwise, and if a cache keeps pixels, it changes
// nothing.
void share_decoding(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                    const at::Device& device, LoaderOptions& options);

// "cpu", "device", or "auto" where both decode.
std::string decodes_on(const Loader& loader);

}  // namespace stoker
