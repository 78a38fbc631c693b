// The metadata in a file of weights: class names and the shape and normalisation of the images, so that the file can be
// used without its run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/task/task.h"

namespace stoker {

// "classes": names of the outputs (Task::classes); "input": [C, H, W]; "mean" and "std": of `normalize`, for each
// channel, on pixels in [0, 1]. For other tasks also "task", "target" (its field) and "outputs"; for a model of several
// inputs "inputs", the fields that it takes after the first. Each value is JSON text in the metadata of a safetensors
// file.
using ModelMetadata = std::map<std::string, std::string>;

// For a model that the recipe trains on images of shape `input` (C, H, W), as data.val_ops leave them, or on (T)
// tokens; or on samples without images, for which it is empty.
ModelMetadata model_metadata(const Recipe& recipe, const Task& task, const Shape& input);

// As one JSON object.
std::string to_json(const ModelMetadata& metadata);

// The shape of its images (C, H, W), or the number of tokens (T); empty where the metadata has none.
Shape input_of(const ModelMetadata& metadata);
// 0 if the metadata lacks a shape of images.
std::int64_t channels_of(const ModelMetadata& metadata);
// The model's outputs, and the name of the field that they predict; 0 and "" where the metadata has none.
std::int64_t outputs_of(const ModelMetadata& metadata);
std::string target_of(const ModelMetadata& metadata);
// The fields that the model takes in addition to its input; empty if it takes one input.
std::vector<std::string> inputs_of(const ModelMetadata& metadata);

}  // namespace stoker
