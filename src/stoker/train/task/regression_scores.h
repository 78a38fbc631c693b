// MAE, RMSE and R2 of numbers. R2 is the mean over the values of a sample, as sklearn.metrics.r2_score has it.
#pragma once

#include <memory>

#include "stoker/train/task/scores.h"

namespace stoker {

std::unique_ptr<Scores> make_regression_scores(const Task& task, const at::Device& device);

}  // namespace stoker
