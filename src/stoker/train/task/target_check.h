// Classes of masks and tokens, looked at on the host before a batch is copied.
#pragma once

#include "stoker/train/task/task.h"

namespace stoker {

// Throws DataError, with the sample's key, for a class in a mask or a token that the model does not have. A GPU would
// stop at an assertion without a name. Other targets are not looked at.
void require_targets(const Task& task, const Batch& batch, const Dataset& dataset);

}  // namespace stoker
