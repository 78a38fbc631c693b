// The file of an imported model, which model.script or model.export names. It holds the model's code; a checkpoint has
// only the weights and the hash of the file.
#pragma once

#include <string>

#include "stoker/base/file.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// "model.script" or "model.export"; null for Stoker's own models.
const char* imported_model_key(const ModelRecipe& recipe);

// Throws IoError, which names `key`, if the file does not exist.
MappedFile open_imported_model(const char* key, const std::string& path);

// The hash of the file's bytes (XXH3, hex); empty for Stoker's own models. Throws IoError.
std::string imported_model_hash(const ModelRecipe& recipe);

}  // namespace stoker
