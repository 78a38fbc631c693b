// A run folder holds the recipe's path unchanged, relative to the working directory of the run's start.
#include "stoker/models/imported_model.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {

const char* imported_model_key(const ModelRecipe& recipe) {
    return !recipe.script.empty() ? "model.script" : !recipe.exported.empty() ? "model.export" : nullptr;
}

MappedFile open_imported_model(const char* key, const std::string& path) {
    std::error_code none;
    if (!std::filesystem::exists(path, none)) {
        throw IoError({.where = key,
                       .expected = "the model's file",
                       .got = path + ", which does not exist",
                       .hint = fmt::format("paths are relative to the working directory: --set {}=FILE", key)});
    }
    return MappedFile(path);
}

std::string imported_model_hash(const ModelRecipe& recipe) {
    const char* key = imported_model_key(recipe);
    if (key == nullptr) {
        return "";
    }
    const MappedFile file = open_imported_model(key, recipe.script.empty() ? recipe.exported : recipe.script);
    return fmt::format("{:016x}", hash_bytes(file.bytes()));
}

}  // namespace stoker
