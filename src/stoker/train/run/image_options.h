// The images of a recipe's loader where a device has a part in them (LoaderOptions::images): data.cache = "device" and
// data.decode_on. `specs` are the recipe entries of the transform's ops.
#pragma once

#include <string>
#include <vector>

#include "stoker/bridge/device.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Replaces PixelImages by IndexedImages, which are read at once with the threads of options.workers and within the
// bytes of the cache, or sets `options.why_not_indexed`: then samples are kept in host memory, and the loader does the
// ops. Throws Unsupported for a device that cannot hold images.
void cache_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                     const at::Device& device, LoaderOptions& options);

// Replaces PixelImages by PackedImages. Throws Unsupported for a device that cannot decode, and InvalidArgument for a
// data set or ops that it cannot take.
void decode_on_device(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                      const at::Device& device, LoaderOptions& options);

// The same with PackedImages::shared if the device can decode. Otherwise, and if a cache keeps pixels, it changes
// nothing.
void share_decoding(const Dataset& dataset, const Transform& transform, const std::vector<OpSpec>& specs,
                    const at::Device& device, LoaderOptions& options);

// "cpu", "device", or "auto" where both decode.
std::string decodes_on(const Loader& loader);

}  // namespace stoker
