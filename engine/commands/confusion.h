// The confusion matrix of an evaluation, for `stoker eval`: as tables for a terminal, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "stoker/train/run/evaluate.h"

namespace stoker::cli {

// Up to 20 classes: the matrix with the accuracy of each class, and the three most confused pairs. More classes: the
// ten least accurate classes, and the ten most confused pairs. Empty without a matrix. Classes without a name are
// numbered.
std::string confusion_text(const Evaluation& evaluation, const std::vector<std::string>& classes);

// The rows of the matrix.
nlohmann::ordered_json confusion_json(const Evaluation& evaluation);

// For each class the share of its samples that were predicted right; null for a class without samples.
nlohmann::ordered_json class_accuracy_json(const Evaluation& evaluation);

}  // namespace stoker::cli
