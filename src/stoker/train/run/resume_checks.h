// Settings that a resumed run must share with its checkpoint although names and shapes of tensors fit: they change what
// weights and optimiser state mean. Other differences show when the tensors are loaded.
#pragma once

#include <string>

#include "stoker/recipe/recipe.h"

namespace stoker {

// Throws InvalidArgument, naming the key, where `recipe` has another built-in model, or another activation, than
// `trained_with`, the recipe (TOML) of the checkpoint. Empty: not known, nothing is checked.
void require_same_model(const std::string& trained_with, const Recipe& recipe);

// The same for the file of model.script or model.export, by its hash (imported_model_hash) when the checkpoint was
// written and now. If one is empty nothing is checked: it is not known, or the model comes without a file.
void require_same_file(const std::string& trained_hash, const std::string& hash, const ModelRecipe& recipe);

// The same for the optimiser's name, and for whether weights are averaged.
void require_same_optimizer(const std::string& trained_with, const Recipe& recipe);

}  // namespace stoker
