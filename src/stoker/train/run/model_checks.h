// Checks that model and data fit together, made before the first step with images of zeros. All throw InvalidArgument
// unless another error is named, and do not change the model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/task/task.h"

namespace stoker {

// A model from a file (model.script, model.export) must take one sample and return float outputs of the task's shape.
// So must any model for pixels or tokens, whose outputs give `task.outputs`. Other models are not tried.
void require_outputs(const Recipe& recipe, Model& model, Task& task, const at::Device& device);

// A user's model must give float outputs of the task's shape, and a user's loss and metrics must take them.
// They run once as in a step: with gradients, on up to two samples, in the mode that the model is in.
void require_own_parts(const Recipe& recipe, Model& model, const Task& task, bool own_model, const at::Device& device);

// Refuses the settings that a model of several inputs does not support.
void require_inputs(const Recipe& recipe, const Model& model, const Task& task);

// The shapes of a loader's images: one, or with LoaderOptions::bucket_sizes one for each.
std::vector<Shape> image_shapes(const Loader& loader);

// The model must take images of this shape, which the ops `key` give; checked only if it is not the task's, and where
// the task takes images.
void require_images(Model& model, const Task& task, const Shape& shape, const at::Device& device, const char* key);

// The model must train on the smallest batch or micro-batch of an epoch, on any rank. It is tried where that is one
// sample, for which batch norm may have a single value per channel; a model that does not take two samples either is
// not refused here, since the first step's message is better.
void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Task& task,
                            const at::Device& device);

// Parts of the recipe that fit no model of the task: built-in models for pixels or tokens, `custom` without a loss, and
// early stopping or a best checkpoint without validation data or by an unknown metric.
void require_task(const Recipe& recipe, const Task& task, bool own_model, bool evaluates);

}  // namespace stoker
