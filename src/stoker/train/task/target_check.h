// Masks, tokens and labels of several bits, looked at on the host before a batch is copied.
#pragma once

#include "stoker/train/task/task.h"

namespace stoker {

// Throws DataError, with the sample's key, for a class in a mask or a token that the model does not have, because a GPU
// would stop at an assertion without a name, and for a label of a multilabel sample that is neither 0 nor 1, which
// would train to a wrong loss. Other targets are not looked at.
void require_targets(const Task& task, const Batch& batch, const Dataset& dataset);

}  // namespace stoker
