// MAE, RMSE and R2 of numbers. RMSE and R2 are means over the values of a sample, as sklearn.metrics has them
// (root_mean_squared_error, r2_score).
#pragma once

#include <memory>

#include "stoker/train/task/scores.h"

namespace stoker {

std::unique_ptr<Scores> make_regression_scores(const Task& task, const at::Device& device);

}  // namespace stoker
