// What a checkpoint's weights mean nothing without, though names and shapes fit: other keys show in a tensor's name or
// shape when it is loaded.
#pragma once

#include <string>

#include "stoker/recipe/recipe.h"

namespace stoker {

// Throws InvalidArgument, naming the key, where `now` says another model than `then`, the recipe (TOML) that a
// checkpoint was trained by; empty: not known.
void require_same_model(const std::string& then, const Recipe& now);

// The same of the file of a model of one's own, by its hash (custom_model_hash) when the checkpoint was written and
// now. Empty: not known, or another kind of model, which names and shapes tell.
void require_same_file(const std::string& then, const std::string& now, const ModelRecipe& recipe);

// The same of the optimiser, whose state would be taken for another's, and of whether weights are averaged.
void require_same_optimizer(const std::string& then, const Recipe& now);

}  // namespace stoker
