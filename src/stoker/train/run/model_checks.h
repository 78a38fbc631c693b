// Checks that model and data fit together, made before the first step with images of zeros. All throw InvalidArgument
// unless another error is named, and do not change the model.
#pragma once

#include <span>
#include <string>

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

// The model must take validation images (C, H, W); checked only if their shape differs from that of training images,
// and where the task takes images.
void require_val_images(Model& model, const Task& task, const Shape& val, const at::Device& device);

// The model must train on the smallest batch or micro-batch of an epoch, on any rank. It is tried where that is one
// sample, for which batch norm may have a single value per channel; a model that does not take two samples either is
// not refused here, since the first step's message is better.
void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Task& task,
                            const at::Device& device);

// The classes `own` of `data` must be the first of `trained`, the classes of `origin`: labels then mean the same.
void require_classes(std::span<const std::string> trained, const std::string& origin, std::span<const std::string> own,
                     const std::string& data);

// Validation fails before the first step, not after the first epoch: if the images that data.val_ops give have several
// sizes, and if more labels than data.bad_samples allows are outside the task's classes. Sizes are those of
// up to 64 samples, and are not looked at where the ops give one size. Throws DataError.
void require_val_samples(const Recipe& recipe, const Loader& val, const Task& task);

// The masks of a segmentation must not hold one class alone besides the ignored one, as those of 0 and 255 do: any
// model would score 100 %. Some of them are read.
void require_mask_classes(const Recipe& recipe, const Task& task, const Dataset& data);

// A training set must have several classes, since any model's loss on one class is 0. An exported graph has its own
// loss and is not checked, and neither are other tasks.
void require_several_classes(const Recipe& recipe, const Task& task, const Dataset& data);

// Parts of the recipe that fit no model of the task: built-in models for pixels or tokens, `custom` without a loss, and
// early stopping or a best checkpoint without validation data or by an unknown metric.
void require_task(const Recipe& recipe, const Task& task, bool own_model, bool evaluates);

}  // namespace stoker
