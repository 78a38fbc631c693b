// The sampler of a recipe: sequential, shuffled, windowed, weighted by data set, or balanced by class.
#pragma once

#include <memory>

#include "stoker/pipeline/recipe_data.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Throws InvalidArgument with the key for weights that do not match the data sets, or balance without labels. Data sets
// without an index of labels are read once for data.balance; errors of the system are rethrown.
std::shared_ptr<const Sampler> train_sampler(const Recipe& recipe, const RecipeData& data);

}  // namespace stoker
