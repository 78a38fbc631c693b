// data.cache = "device": which data sets can lie on the device, and loading them there.
#pragma once

#include <memory>
#include <string>

#include "stoker/bridge/device.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Throws Unsupported for a device that cannot hold images.
void require_device_cache(const at::Device& device);

// Replaces PixelImages by IndexedImages, which are read at once with the threads of options.workers and within the
// bytes of the cache, or sets `options.why_not_indexed`: then samples are kept in host memory, and the loader does the
// ops. `specs`: the recipe entries of the transform's ops.
void cache_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                     const at::Device& device, LoaderOptions& options);

}  // namespace stoker
