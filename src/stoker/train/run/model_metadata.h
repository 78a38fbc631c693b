// What a model's file says of it beside its weights, so that whoever has the file alone can use it: the names of its
// classes, and what its images are.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "stoker/base/tensor_view.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// "classes": names by label; "input": [C, H, W]; "mean" and "std": those of `normalize`, for each channel, on pixels in
// [0, 1]. Each value is JSON: the metadata of a safetensors file.
using ModelMetadata = std::map<std::string, std::string>;

// Of a model that the recipe trains for images `input`, which data.val_ops make.
ModelMetadata model_metadata(const Recipe& recipe, const Shape& input, std::span<const std::string> classes);

// The same as one JSON object.
std::string to_json(const ModelMetadata& about);

// Of the images that it takes, (C, H, W); empty where it does not tell.
Shape input_of(const ModelMetadata& about);
// 0 where it does not tell.
std::int64_t channels_of(const ModelMetadata& about);

}  // namespace stoker
