#include "stoker/diagnose/report/fix_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stoker/base/shell_quote.h"

namespace stoker {

std::string recipe_lines(const Fix& fix) {
    std::vector<std::pair<std::string, std::string>> tables;  // header, lines; top-level keys come first
    for (const RecipeChange& change : fix.recipe) {
        const std::size_t dot = change.key.rfind('.');
        const std::string table = dot == std::string::npos ? "" : change.key.substr(0, dot);
        const std::string key = dot == std::string::npos ? change.key : change.key.substr(dot + 1);
        auto at = std::ranges::find(tables, table, &std::pair<std::string, std::string>::first);
        if (at == tables.end()) {
            at = tables.insert(table.empty() ? tables.begin() : tables.end(), {table, ""});
        }
        at->second += key + " = " + change.value + "\n";
    }
    std::string out;
    for (const auto& [table, lines] : tables) {
        out += (table.empty() ? "" : "[" + table + "]\n") + lines;
    }
    return out;
}

std::string set_options(const Fix& fix) {
    std::string out;
    for (const RecipeChange& change : fix.recipe) {
        out += (out.empty() ? "--set " : " --set ") + quoted_for_shell(change.key + "=" + change.value);
    }
    return out;
}

}  // namespace stoker
