// Keys are compared as text, so that recipes of other versions can be compared.
#include "stoker/train/run/resume_checks.h"

#include <cstdlib>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/models/imported_model.h"
#include "stoker/track/recipe_keys.h"

namespace stoker {
namespace {

void require_same(const std::string& trained_with, const Recipe& recipe, const std::string& key, const char* hint) {
    const RecipeKeys before = recipe_keys(trained_with, "the checkpoint's recipe");
    const RecipeKeys given = recipe_keys(recipe_to_toml(recipe), "the recipe");
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

void require_same_model(const std::string& trained_with, const Recipe& recipe) {
    const bool built_in = recipe.model.script.empty() && recipe.model.exported.empty();
    if (!trained_with.empty()) {
        require_same(trained_with, recipe, "task", "use the task that the checkpoint was trained with");
    }
    if (!trained_with.empty() && built_in) {
        constexpr const char* kHint = "use the recipe that the checkpoint was trained with";
        require_same(trained_with, recipe, "model.name", kHint);
        if (recipe.model.name == "mlp") {
            require_same(trained_with, recipe, "model.activation", kHint);
        }
    }
}

void require_same_file(const std::string& trained_hash, const std::string& hash, const ModelRecipe& recipe) {
    if (trained_hash.empty() || hash.empty() || trained_hash == hash) {
        return;
    }
    throw InvalidArgument({.where = imported_model_key(recipe),
                           .expected = "the file that the run began with",
                           .got = (recipe.script.empty() ? recipe.exported : recipe.script) + ", which is another",
                           .hint = fmt::format("restore that file, or set {} to it; another network needs a new run",
                                               imported_model_key(recipe))});
}

void require_same_optimizer(const std::string& trained_with, const Recipe& recipe) {
    if (trained_with.empty()) {
        return;
    }
    require_same(trained_with, recipe, "optimizer.name", "resume with the optimizer that the run began with");
    const RecipeKeys before = recipe_keys(trained_with, "the checkpoint's recipe");
    const auto ema = before.find("train.ema");
    const bool averaged = ema != before.end() && std::strtod(ema->second.c_str(), nullptr) > 0;
    if (ema != before.end() && averaged != (recipe.train.ema > 0)) {  // any other decay continues the average
        throw InvalidArgument(
            {.where = "train.ema",
             .expected = ema->second + ", as when the run began",
             .got = fmt::to_string(recipe.train.ema),
             .hint = averaged ? "a run with averaged weights keeps them: train.ema = " + ema->second
                              : "a run without averaged weights continues without them: train.ema = 0, or start a "
                                "new run with model.weights"});
    }
}

}  // namespace stoker
