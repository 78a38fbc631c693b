// A recipe as dotted keys with their values as text, to show and to compare: also of runs that another version of
// Stoker made, whose recipes this one may refuse.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stoker {

using RecipeKeys = std::map<std::string, std::string>;  // "optimizer.lr" -> "0.001"; text without quotes

// Every key of the recipe, with this version's defaults where the text is a recipe to it; else those that are written.
// Throws InvalidArgument for text that is not TOML, naming `origin`.
RecipeKeys recipe_keys(const std::string& text, const std::string& origin);

struct DifferingKey {
    std::string key;
    std::vector<std::string> values;  // of each recipe; empty where it has no such key
};

// Recipes without any key, which could not be read, differ from none.
std::vector<DifferingKey> differing_keys(const std::vector<RecipeKeys>& recipes);

}  // namespace stoker
