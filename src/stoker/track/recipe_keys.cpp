// recipe_to_toml adds missing keys, so a default that is written out is not a difference.
#include "stoker/track/recipe_keys.h"

#include <fmt/format.h>
#include <set>

#include "stoker/base/error.h"
#include "stoker/base/url_secrets.h"
#include "stoker/recipe/document.h"
#include "stoker/recipe/recipe.h"

namespace stoker {
namespace {

std::string text_of(const TomlValue& value) {
    if (const auto* flag = value.as<bool>()) {
        return *flag ? "true" : "false";
    }
    if (const auto* number = value.as<std::int64_t>()) {
        return fmt::to_string(*number);
    }
    if (const auto* number = value.as<double>()) {
        return fmt::format("{}", *number);
    }
    if (const auto* text = value.as<std::string>()) {
        return stored_url(*text);
    }
    std::string out;
    if (const auto* array = value.as<TomlArray>()) {
        for (const TomlValue& item : *array) {
            out += (out.empty() ? "" : ", ") + text_of(item);
        }
        return "[" + out + "]";
    }
    if (const auto* table = value.as<TomlTable>()) {
        for (const TomlMember& member : *table) {
            out += (out.empty() ? "" : ", ") + member.key + " = " + text_of(member.value);
        }
        return "{" + out + "}";
    }
    return "?";  // a date or a time; no key takes one
}

void add_keys(const TomlTable& table, const std::string& prefix, RecipeKeys& out) {
    for (const TomlMember& member : table) {
        if (const auto* inner = member.value.as<TomlTable>()) {
            add_keys(*inner, prefix + member.key + ".", out);
        } else {
            out[prefix + member.key] = text_of(member.value);
        }
    }
}

}  // namespace

RecipeKeys recipe_keys(const std::string& text, const std::string& origin) {
    std::string complete = text;
    try {
        complete = recipe_to_toml(parse_recipe(text, origin));
    } catch (const InvalidArgument&) {  // possibly from another version of Stoker
    }
    RecipeKeys keys;
    add_keys(parse_toml(complete, origin), "", keys);
    return keys;
}

std::vector<DifferingKey> differing_keys(const std::vector<RecipeKeys>& recipes) {
    std::set<std::string> names;
    for (const RecipeKeys& recipe : recipes) {
        for (const auto& [key, value] : recipe) {
            names.insert(key);
        }
    }
    std::vector<DifferingKey> differing;
    for (const std::string& name : names) {
        DifferingKey key{.key = name, .values = {}};
        std::set<std::string> values;  // a missing key differs from an empty value
        for (const RecipeKeys& recipe : recipes) {
            const auto found = recipe.find(name);
            key.values.push_back(found == recipe.end() ? "" : found->second);
            if (!recipe.empty()) {
                values.insert(found == recipe.end() ? "" : "=" + found->second);
            }
        }
        if (values.size() > 1) {
            differing.push_back(std::move(key));
        }
    }
    return differing;
}

}  // namespace stoker
