// Reads a recipe by the schema: the file, then each --set, then the checks for required and conflicting keys.
#include "stoker/recipe/recipe.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/suggest.h"
#include "stoker/recipe/document.h"
#include "stoker/recipe/field_keys.h"
#include "stoker/recipe/schema.h"
#include "stoker/recipe/unknown_key.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

// The place that set each key last, by the key's name.
using GivenKeys = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kSetOrigin = "--set";
constexpr std::string_view kFieldsTable = "data.fields";

bool is_table(std::string_view name) {
    return !name.empty() && std::ranges::find(recipe_schema(), name, &SchemaKey::table) != recipe_schema().end();
}

[[noreturn]] void refuse_key(const Place& place, std::string_view table, std::string_view name) {
    throw InvalidArgument({.where = place.text(),
                           .expected = "a known key",
                           .got = quoted_short(name),
                           .hint = unknown_key_hint(table, name, /*dotted=*/false)});
}

void read_key(Recipe& recipe, GivenKeys& given, const SchemaKey& key, const TomlValue& value, const Place& place) {
    key.read(recipe, value, place);
    given[key.name] = place.text();
}

// [data.fields.NAME]. A field without keys is also read.
void read_field(Recipe& recipe, GivenKeys& given, const TomlMember& field, const Place& place) {
    if (!is_field_name(field.key)) {
        throw InvalidArgument({place.text(),
                               "a name of letters, digits and \"_\" for a field, and not image, label, index or key",
                               quoted_short(field.key)});
    }
    const std::vector<SchemaKey> keys = field_keys(field.key);
    if (std::ranges::find(recipe.data.fields.more, field.key, &FieldRecipe::name) == recipe.data.fields.more.end()) {
        recipe.data.fields.more.push_back({.name = field.key});
    }
    for (const TomlMember& member : *field.value.as<TomlTable>()) {
        const auto found = std::ranges::find(keys, member.key, &SchemaKey::leaf);
        const Place inner = place.inner(fmt::format("{}.{}", place.key, member.key), member.line);
        if (found == keys.end()) {
            std::vector<std::string> known;
            std::ranges::transform(keys, std::back_inserter(known),
                                   [](const SchemaKey& key) { return std::string(key.leaf()); });
            throw InvalidArgument({inner.text(), fmt::format("one of {}", fmt::join(known, ", ")),
                                   quoted_short(member.key), nearest_name_hint(member.key, known)});
        }
        read_key(recipe, given, *found, member.value, inner);
    }
}

// `name` is the table's name, empty for the root.
void read_table(Recipe& recipe, GivenKeys& given, const TomlTable& table, const std::string& name, const Place& place) {
    for (const TomlMember& member : table) {
        const std::string full = name.empty() ? member.key : fmt::format("{}.{}", name, member.key);
        const Place inner = place.inner(full, member.line);
        // A quoted "data.train" is not a dotted key.
        const bool plain = member.key.find('.') == std::string::npos;
        if (plain && is_table(full)) {
            const auto* below = member.value.as<TomlTable>();
            if (below == nullptr) {
                throw InvalidArgument({inner.text(), "a table", describe(member.value)});
            }
            read_table(recipe, given, *below, full, inner);
            continue;
        }
        if (name == kFieldsTable && plain && member.value.as<TomlTable>() != nullptr) {
            read_field(recipe, given, member, inner);
            continue;
        }
        const SchemaKey* key = find_schema_key(full);
        if (key == nullptr || !plain) {
            refuse_key(inner, name, member.key);
        }
        read_key(recipe, given, *key, member.value, inner);
    }
}

// The value of a --set. Text that is not TOML (resnet18, 200 steps, 4GiB) is taken literally.
TomlValue set_value(const SchemaKey& key, const std::string& text, const std::string& origin) {
    const char first = text.empty() ? ' ' : text.front();
    const bool quoted = first == '"' || first == '\'';
    const bool nested = !key.text && (first == '[' || first == '{');
    if (!key.text || quoted) {
        try {
            TomlTable parsed = parse_toml("value = " + text, origin, false);
            if (parsed.size() == 1 && parsed.front().key == "value") {
                return std::move(parsed.front().value);
            }
        } catch (const InvalidArgument&) {
            if (quoted || nested) {
                throw;
            }
        }
    }
    // Parsed as TOML again, which refuses invalid UTF-8.
    return parse_toml("value = " + toml_string(text), origin, false).front().value;
}

void apply_set(Recipe& recipe, GivenKeys& given, const std::string& set) {
    const std::size_t equals = set.find('=');
    const std::string name = set.substr(0, equals);
    const Place place{.origin = std::string(kSetOrigin), .key = name};
    if (equals == std::string::npos) {
        throw InvalidArgument({place.text(), "key=value", quoted_short(set), "for example data.batch_size=128"});
    }
    const std::optional<SchemaKey> key = find_any_key(name);
    if (!key) {
        if (is_table(name)) {
            throw InvalidArgument({place.text(), fmt::format("a key of [{}]", name), "the table itself",
                                   fmt::format("for example --set {}.{}=VALUE", name, names_in_table(name).front())});
        }
        const std::size_t dot = name.rfind('.');
        const std::string table = dot == std::string::npos ? "" : name.substr(0, dot);
        const std::string leaf = dot == std::string::npos ? name : name.substr(dot + 1);
        throw InvalidArgument(
            {place.text(), "a known key", quoted_short(name), unknown_key_hint(table, leaf, /*dotted=*/true)});
    }
    read_key(recipe, given, *key, set_value(*key, set.substr(equals + 1), place.text()), place);
}

void check_recipe(const Recipe& recipe, const GivenKeys& given, const std::string& origin) {
    for (const SchemaKey& key : recipe_schema()) {
        if (key.required && !given.contains(key.name)) {
            throw InvalidArgument({fmt::format("{}: {}", origin, key.name), key.allowed, "nothing",
                                   fmt::format("set {} in [{}]", key.leaf(), key.table())});
        }
    }
    if (const auto conflict = find_conflict(recipe)) {
        const auto where = given.find(conflict->key);
        const ErrorInfo info{where != given.end() ? where->second : fmt::format("{}: {}", origin, conflict->key),
                             conflict->expected, conflict->got, conflict->hint};
        if (info.where.starts_with(kSetOrigin)) {
            throw BadSetting(info);
        }
        throw InvalidArgument(info);
    }
}

std::string name_of(const std::string& origin) {
    const std::filesystem::path file = std::filesystem::path(origin).filename();
    return file.extension() == ".toml" ? file.stem().string() : file.string();
}

std::string further_fields_to_toml(const Recipe& recipe) {
    std::string text;
    for (const FieldRecipe& field : recipe.data.fields.more) {
        text += fmt::format("\n[{}.{}]\n", kFieldsTable, field.name);
        for (const SchemaKey& key : field_keys(field.name)) {
            text += fmt::format("{} = {}\n", key.leaf(), key.write(recipe));
        }
    }
    return text;
}

}  // namespace

Recipe read_recipe(const std::string& path, const std::vector<std::string>& sets) {
    std::error_code unknown;  // read_text below reports the error
    if (const std::filesystem::path folder(path); std::filesystem::is_directory(folder, unknown)) {
        const std::filesystem::path inside = folder / "recipe.toml";
        throw IoError({.where = path,
                       .expected = "a recipe (TOML)",
                       .got = "a directory",
                       .hint = std::filesystem::exists(inside, unknown) ? inside.string() + " is in it" : ""});
    }
    const auto size = std::filesystem::file_size(path, unknown);
    if (const std::string near = unknown == std::errc::no_such_file_or_directory ? nearest_path(path) : "";
        !near.empty()) {
        throw errno_error(path, "a readable file", ENOENT, fmt::format("did you mean \"{}\"?", near));
    }
    if (!unknown && size > kMaxTomlBytes) {
        throw InvalidArgument({path, fmt::format("a recipe of at most {} bytes", kMaxTomlBytes),
                               fmt::format("{} bytes", size), "a recipe is a TOML file, see docs/recipe.md"});
    }
    return parse_recipe(read_text(path), path, sets);
}

Recipe parse_recipe(const std::string& text, const std::string& origin, const std::vector<std::string>& sets) {
    Recipe recipe;
    recipe.name = name_of(origin);
    GivenKeys given;
    read_table(recipe, given, parse_toml(text, origin), "", {.origin = origin, .line = 1});
    for (const std::string& set : sets) {
        try {
            apply_set(recipe, given, set);
        } catch (const InvalidArgument& error) {
            throw BadSetting(error.what());
        }
    }
    check_recipe(recipe, given, origin);
    return recipe;
}

void require_known_names(const Recipe& recipe) {
    static const Recipe kDefaults;
    Recipe read;
    for (const SchemaKey& key : recipe_schema()) {
        const std::string text = key.name == "seed" ? "" : key.write(recipe);  // TOML cannot hold every seed
        if (text.starts_with('"') && text != key.write(kDefaults)) {
            const TomlTable table = parse_toml(fmt::format("value = {}\n", text), key.name, /*has_lines=*/false);
            key.read(read, table.front().value, {.origin = "recipe", .key = key.name});
        }
    }
}

std::string recipe_to_toml(const Recipe& recipe) {
    std::string text;
    std::string_view table;
    for (const SchemaKey& key : recipe_schema()) {
        if (key.table() != table) {
            text += table == kFieldsTable ? further_fields_to_toml(recipe) : "";
            table = key.table();
            text += fmt::format("\n[{}]\n", table);
        }
        text += fmt::format("{} = {}\n", key.leaf(), key.write(recipe));
    }
    return text;
}

}  // namespace stoker
