// Keys are compared as text, so that a recipe of another version can be, too.
#include "stoker/train/same_model.h"

#include "stoker/base/error.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

void require_same(const std::string& then, const Recipe& now, const std::string& key, const char* hint) {
    const RecipeKeys before = recipe_keys(then, "the checkpoint's recipe");
    const RecipeKeys given = recipe_keys(recipe_to_toml(now), "the recipe");
    const auto trained = before.find(key);
    const auto wanted = given.find(key);
    if (trained != before.end() && wanted != given.end() && trained->second != wanted->second) {
        throw InvalidArgument({.where = key,
                               .expected = "\"" + trained->second + "\", as the checkpoint was trained with",
                               .got = "\"" + wanted->second + "\"",
                               .hint = hint});
    }
}

}  // namespace

void require_same_model(const std::string& then, const Recipe& now) {
    const bool built_in = now.model.script.empty() && now.model.exported.empty();
    if (!then.empty() && built_in) {
        require_same(then, now, "model.name", "use the recipe that the checkpoint was trained by");
        if (now.model.name == "mlp") {
            require_same(then, now, "model.activation", "use the recipe that the checkpoint was trained by");
        }
    }
}

void require_same_optimizer(const std::string& then, const Recipe& now) {
    if (!then.empty()) {
        require_same(then, now, "optimizer.name", "resume with the optimizer that the run began with");
    }
}

}  // namespace stoker
