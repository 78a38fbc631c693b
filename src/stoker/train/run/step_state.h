// A checkpoint's state of a step and its optimiser. Its file of the optimiser also holds the scaler's tensors.
#pragma once

#include <vector>

#include "stoker/train/run/checkpoint.h"
#include "stoker/train/step/optimizer.h"
#include "stoker/train/step/step.h"

namespace stoker {

// Empty where the step has none.
std::vector<NamedTensor> scaler_tensors(const Step& step);
std::vector<NamedTensor> ema_tensors(const Step& step);

// Gives both what `saved` has of them. Throws InvalidArgument where that is another optimiser's or step's.
void load_step(const Checkpoint& saved, Optimizer& optimizer, Step& step);

}  // namespace stoker
