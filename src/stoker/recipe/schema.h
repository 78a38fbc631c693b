// The table of a recipe's keys: name, allowed values, meaning, and functions that read and write the value. Files,
// --set, written recipes, stoker.Loader in Python and the reference in docs/recipe.md use it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/recipe/document.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// A key as an argument in Python.
struct PythonArgument {
    std::string type = {};      // in the signature of stoker.Loader; empty: not there
    std::string of = "all";     // the loaders that take it; "opened": of stoker.open; "engine": and no ops in Python
    std::string about = {};     // one line; empty: the key's
    std::string fallback = {};  // the default in Python; empty: the key's
    std::string name = {};      // empty: the key without its table
};

struct SchemaKey {
    std::string name;     // dotted: "data.batch_size"
    std::string allowed;  // for messages and the reference: "an integer from 1 to 1073741824"
    std::string about;    // one line of Markdown, no full stop
    bool required = false;
    bool text = false;  // --set takes the value literally, not as TOML
    // Checks and stores the value. Throws InvalidArgument with `place`.
    std::function<void(Recipe&, const TomlValue&, const Place&)> read;
    // The value as TOML; of a default Recipe, the key's default.
    std::function<std::string(const Recipe&)> write;

    std::optional<PythonArgument> python = {};

    // The key as an argument in Python, with the empty parts filled.
    SchemaKey in_python(PythonArgument argument) const;

    // "data" of "data.batch_size", "data.fields" of "data.fields.image", empty for "seed".
    std::string_view table() const;
    // "batch_size" of "data.batch_size".
    std::string_view leaf() const;
};

// In the order of the reference: keys without a table first, then table by table.
const std::vector<SchemaKey>& recipe_schema();

// Null for an unknown name.
const SchemaKey* find_schema_key(std::string_view name);

// Two keys whose values exclude each other.
struct SchemaConflict {
    std::string key;  // the key to report
    std::string expected;
    std::string got;
    std::string hint;
};
std::optional<SchemaConflict> find_conflict(const Recipe& recipe);

}  // namespace stoker
