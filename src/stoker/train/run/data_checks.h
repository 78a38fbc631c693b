// Checks of a run's data, made before the first step. All throw InvalidArgument unless another error is named.
#pragma once

#include <span>
#include <string>

#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/task/task.h"

namespace stoker {

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

}  // namespace stoker
