// The recipe's keys as one table: name, type, default, meaning, how to read and how to write each.
// Reading a file, --set, writing a recipe out and the reference in docs/recipe.md all run from it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/recipe/document.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct SchemaKey {
    std::string name;     // dotted: "data.batch_size"
    std::string allowed;  // as messages and the reference say it: "an integer from 1 to 1073741824"
    std::string about;    // one line of Markdown, no full stop
    bool required = false;
    bool text = false;  // --set takes the value as it stands, without reading it as TOML
    // Checks the value and stores it. Throws InvalidArgument naming `place`.
    std::function<void(Recipe&, const TomlValue&, const Place&)> read;
    // The value as TOML. A default recipe gives the key's default.
    std::function<std::string(const Recipe&)> write;

    // "data" of "data.batch_size", "data.fields" of "data.fields.image", empty for "seed".
    std::string_view table() const;
    // "batch_size" of "data.batch_size".
    std::string_view leaf() const;
};

// In the order of the reference; keys of one table stand together, those of none come first.
const std::vector<SchemaKey>& recipe_schema();

// Null for an unknown name.
const SchemaKey* find_schema_key(std::string_view name);

// What is wrong between the values of two keys, each of them possible.
struct SchemaConflict {
    std::string key;  // the one to blame
    std::string expected;
    std::string got;
    std::string hint;
};
std::optional<SchemaConflict> find_conflict(const Recipe& recipe);

}  // namespace stoker
