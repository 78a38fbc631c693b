// The file of a model of one's own, which model.script or model.export names: a program, whose weights alone a
// checkpoint holds.
#pragma once

#include <string>

#include "stoker/base/file.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// The key that names it; null for Stoker's own models.
const char* custom_model_key(const ModelRecipe& recipe);

// Throws IoError, which names the key, where there is none.
MappedFile open_custom_model(const char* key, const std::string& path);

// What the file is known by: the hash of its bytes (XXH3, hex); empty for Stoker's own models. Throws IoError.
std::string custom_model_hash(const ModelRecipe& recipe);

}  // namespace stoker
