// The order that a recipe asks for: shuffled as a whole or in windows, weighted by source, balanced by class.
#pragma once

#include <memory>

#include "stoker/pipeline/recipe_data.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Throws InvalidArgument, naming the key, for weights that do not fit the sources, or a balance without labels; what
// reading a sample throws where only that tells its label.
std::shared_ptr<const Sampler> train_sampler(const Recipe& recipe, const RecipeData& data);

}  // namespace stoker
