// Changes keys in the text of a recipe and leaves everything else as its author wrote it.
#pragma once

#include <string>
#include <vector>

namespace stoker {

struct RecipeEdit {
    std::string key;           // "data.workers", a key of the schema
    std::string value;         // as TOML: 4, true, "\"ram\""
    std::string comment = {};  // one line without "#", above the key; empty: none
};

// The text with each key set: in place where the recipe has it, otherwise at the head of its table, which is added if
// there is none. Throws InvalidArgument for text that is not TOML (`origin` names it in messages), and for an edit
// after which the text would not say what it should.
std::string edit_recipe(std::string text, const std::vector<RecipeEdit>& edits, const std::string& origin);

}  // namespace stoker
