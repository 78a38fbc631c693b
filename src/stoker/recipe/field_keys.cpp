// A key finds its field by name each time, because reading adds fields.
#include "stoker/recipe/field_keys.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>

#include "stoker/recipe/schema_keys.h"

namespace stoker {
namespace {

constexpr std::string_view kTable = "data.fields.";
constexpr std::size_t kLongestName = 64;
constexpr std::int64_t kMostEntries = 1 << 20;

// The field of this name; a recipe that is not const gets it where it is missing.
template <typename AnyRecipe>
auto& field_of(AnyRecipe& recipe, const std::string& name) {
    auto& all = recipe.data.fields.more;
    auto found = std::ranges::find(all, name, &FieldRecipe::name);
    if constexpr (!std::is_const_v<AnyRecipe>) {
        if (found == all.end()) {
            all.push_back({.name = name});
            found = all.end() - 1;
        }
    }
    return found == all.end() ? throw InvalidArgument({fmt::format("{}{}", kTable, name), "a field", "none"}) : *found;
}

// Ops of a field's own; "image": those of the images.
SchemaKey own_ops(const std::string& name, const auto& at, const char* images) {
    using Ops = std::optional<std::vector<OpSpec>>;
    return {.name = name,
            .allowed = "\"image\", or an array of tables such as {op = \"resize\", size = 256}",
            .about = fmt::format("transforms of an image or mask where they differ from `{}`", images),
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* text = value.as<std::string>();
                    at(recipe) = text != nullptr && *text == "image" ? Ops() : Ops(read_ops(value, place));
                },
            .write =
                [=](const Recipe& recipe) {
                    const Ops& ops = at(recipe);
                    return ops ? ops_to_toml(*ops) : std::string("\"image\"");
                }};
}

}  // namespace

bool is_field_name(std::string_view name) {
    constexpr std::array<std::string_view, 4> kTaken = {"image", "label", "index", "key"};
    const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    return !name.empty() && name.size() <= kLongestName && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
           std::ranges::all_of(name, plain) && std::ranges::find(kTaken, name) == kTaken.end();
}

std::vector<SchemaKey> field_keys(std::string_view name) {
    const std::string table = fmt::format("{}{}.", kTable, name);
    const auto at = [name = std::string(name)](auto member) {
        return [ name, member ](auto& recipe) -> auto& {
            return field_of(recipe, name).*member;
        };
    };
    return {schema::one_of(table + "is", at(&FieldRecipe::is),
                           {"value", "label", "image", "mask", "boxes", "tokens", "bytes"}, "what the field means"),
            schema::text(
                table + "from", at(&FieldRecipe::from), "a name, or columns of a table in one text, \"a,b\"",
                [](std::string_view) { return true; },
                "its name in the data, or columns of a table, \"a,b\"; empty: the same"),
            schema::integer_or(
                "none", table + "pad", at(&FieldRecipe::pad),
                fmt::format("\"none\" or an integer from 1 to {}", kMostEntries),
                "entries that a field of any length gets in the batch: shorter ones are filled with zeros, longer ones "
                "cut, and `NAME_length` has the number of entries; `none`: values of all samples with offsets",
                [](const TomlValue& value) {
                    return schema::Between{1, kMostEntries}.read(value);
                }),
            schema::integers(table + "values", at(&FieldRecipe::values), {0, 255}, 256,
                             "the values that a mask stores, in the order of the classes, such as [0, 255]: others "
                             "become 255, which the loss leaves out; empty: values are classes"),
            own_ops(table + "train_ops", at(&FieldRecipe::train_ops), "data.train_ops"),
            own_ops(table + "val_ops", at(&FieldRecipe::val_ops), "data.val_ops")};
}

std::optional<SchemaKey> find_any_key(std::string_view name) {
    if (const SchemaKey* key = find_schema_key(name)) {
        return *key;
    }
    const std::size_t dot = name.rfind('.');
    if (!name.starts_with(kTable) || dot <= kTable.size()) {
        return std::nullopt;
    }
    const std::string_view field = name.substr(kTable.size(), dot - kTable.size());
    if (!is_field_name(field)) {
        return std::nullopt;
    }
    const std::vector<SchemaKey> keys = field_keys(field);
    const auto found = std::ranges::find(keys, name, &SchemaKey::name);
    return found == keys.end() ? std::nullopt : std::optional(*found);
}

}  // namespace stoker
