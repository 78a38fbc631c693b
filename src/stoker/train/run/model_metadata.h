// The metadata in a file of weights: class names and the shape and normalisation of the images, so that the file can be
// used without its run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "stoker/base/tensor_view.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// "classes": names by label; "input": [C, H, W]; "mean" and "std": of `normalize`, for each channel, on pixels in [0,
// 1]. Each value is JSON text in the metadata of a safetensors file.
using ModelMetadata = std::map<std::string, std::string>;

// For a model that the recipe trains on images of shape `input` (C, H, W), as data.val_ops leave them.
ModelMetadata model_metadata(const Recipe& recipe, const Shape& input, std::span<const std::string> classes);

// As one JSON object.
std::string to_json(const ModelMetadata& metadata);

// The shape of its images (C, H, W); empty where the metadata has none.
Shape input_of(const ModelMetadata& metadata);
// 0 where the metadata has no shape.
std::int64_t channels_of(const ModelMetadata& metadata);

}  // namespace stoker
