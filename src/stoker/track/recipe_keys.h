// A recipe as dotted keys with values as text, for display and comparison. Also reads recipes of other versions of
// Stoker that this version refuses.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace stoker {

using RecipeKeys = std::map<std::string, std::string>;  // "optimizer.lr" -> "0.001"; text without quotes

// If this version accepts the recipe: every key, with defaults. Otherwise: the keys in the text. Throws InvalidArgument
// with `origin` for text that is not TOML.
RecipeKeys recipe_keys(const std::string& text, const std::string& origin);

struct DifferingKey {
    std::string key;
    std::vector<std::string> values;  // one per recipe; empty if it lacks the key
};

// Keys whose values differ. Empty recipes, which could not be read, are ignored.
std::vector<DifferingKey> differing_keys(const std::vector<RecipeKeys>& recipes);

}  // namespace stoker
