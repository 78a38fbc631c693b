// The options follow the recipe: a name that is left out would pack other fields, or none.
#include "stoker/diagnose/rules/pack_command.h"

#include <fmt/format.h>
#include <map>

#include "stoker/base/shell_quote.h"

namespace stoker {
namespace {

// As a word of a command to copy.
std::string data_path(const RankRecords& rank) {
    return rank.facts.data.path.empty() ? "DATA" : quoted_for_shell(rank.facts.data.path);
}

// The options by which `stoker pack` reads the fields of the recipe, [data.fields] and [data.fields.NAME].
std::string field_options(const JudgedRun& records) {
    constexpr std::string_view kFields = "data.fields.";
    std::string options;
    for (const char* name : {"image", "label"}) {
        const auto found = records.recipe.find(fmt::format("{}{}", kFields, name));
        if (found != records.recipe.end() && !found->second.empty()) {
            options += fmt::format(" --{}-field {}", name, quoted_for_shell(found->second));
        }
    }
    struct Field {
        std::string from = {};
        std::string is = "value";
    };
    std::map<std::string, Field> fields;
    for (const auto& [key, value] : records.recipe) {
        const std::size_t dot = key.starts_with(kFields) ? key.find('.', kFields.size()) : std::string::npos;
        if (dot != std::string::npos) {
            Field& field = fields[key.substr(kFields.size(), dot - kFields.size())];
            const std::string name = key.substr(dot + 1);
            field.from = name == "from" ? "=" + value : field.from;
            field.is = name == "is" ? value : field.is;
        }
    }
    for (const auto& [name, field] : fields) {
        options += " --field " + quoted_for_shell(fmt::format("{}{}:{}", name, field.from, field.is));
    }
    return options;
}

}  // namespace

bool recipe_sets(const JudgedRun& records, const char* key, const char* value) {
    const auto found = records.recipe.find(key);
    return found != records.recipe.end() && found->second == value;
}

std::string pack_command(const JudgedRun& records, const RankRecords& rank, std::string_view options) {
    const bool own_split = rank.facts.train.val_samples.value_or(0) > 0 && recipe_sets(records, "data.val", "") &&
                           (!records.recipe.contains("data.mix") || recipe_sets(records, "data.mix", "[]"));
    return fmt::format("stoker pack {} packed.stk{}{}{}  # then train with --set data.train=packed.stk{}",
                       data_path(rank), options, field_options(records),
                       recipe_sets(records, "data.first_frame", "true") ? " --first-frame" : "",
                       own_split ? " --set data.val=" + data_path(rank) : "");
}

}  // namespace stoker
