// F1 and mean average precision of several labels a sample. A label is predicted where its probability is above a half.
#pragma once

#include <memory>

#include "stoker/train/task/scores.h"

namespace stoker {

// Keeps the outputs of all samples until the end, since average precision sorts them: five bytes for each label of each
// sample, on the device.
std::unique_ptr<Scores> make_multilabel_scores(const Task& task, const at::Device& device);

}  // namespace stoker
