// Keys are compared as text, so that a recipe of another version can be, too.
#include "stoker/train/run/resume_checks.h"

#include <cstdlib>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/models/custom_model.h"
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

void require_same_file(const std::string& then, const std::string& now, const ModelRecipe& recipe) {
    if (then.empty() || now.empty() || then == now) {
        return;
    }
    const std::string key = custom_model_key(recipe);
    throw InvalidArgument(
        {.where = key,
         .expected = "the file that the run began with",
         .got = (recipe.script.empty() ? recipe.exported : recipe.script) + ", which is another",
         .hint = fmt::format("put it back or name it, --set {}=FILE; another network is another run", key)});
}

void require_same_optimizer(const std::string& then, const Recipe& now) {
    if (then.empty()) {
        return;
    }
    require_same(then, now, "optimizer.name", "resume with the optimizer that the run began with");
    const RecipeKeys before = recipe_keys(then, "the checkpoint's recipe");
    const auto ema = before.find("train.ema");
    const bool averaged = ema != before.end() && std::strtod(ema->second.c_str(), nullptr) > 0;
    if (ema != before.end() && averaged != (now.train.ema > 0)) {  // any other decay goes on with the average there is
        throw InvalidArgument(
            {.where = "train.ema",
             .expected = ema->second + ", as when the run began",
             .got = fmt::to_string(now.train.ema),
             .hint = averaged ? "a run with averaged weights goes on with them: --set train.ema=" + ema->second
                              : "a run goes on without averaged weights where it began without: "
                                "--set train.ema=0, or a new run with model.weights"});
    }
}

}  // namespace stoker
