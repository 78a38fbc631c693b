// stoker recipe: lists the recipes in the program, or writes one to stdout.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/command.h"
#include "cli/included_recipes.h"
#include "cli/terminal/print.h"

namespace stoker::cli {
namespace {

// The first line, without "# ".
std::string summary(const IncludedRecipe& recipe) {
    const std::string line = recipe.text.substr(0, recipe.text.find('\n'));
    return line.substr(std::min(line.find_first_not_of("# "), line.size()));
}

int run(const std::string& name) {
    std::size_t width = 0;
    for (const IncludedRecipe& recipe : included_recipes()) {
        width = std::max(width, recipe.name.size());
    }
    for (const IncludedRecipe& recipe : included_recipes()) {
        if (name.empty()) {
            print_stdout("{:<{}}  {}\n", recipe.name, width, summary(recipe));
        } else if (name == recipe.name) {
            write_stdout(recipe.text);
        }
    }
    return 0;
}

}  // namespace

Command add_recipe(CLI::App& app) {
    auto name = std::make_shared<std::string>();
    std::vector<std::string> names;
    for (const IncludedRecipe& recipe : included_recipes()) {
        names.push_back(recipe.name);
    }
    app.add_option("name", *name, "the recipe to print; without it, all are listed")->check(CLI::IsMember(names));
    example(app,
            "  stoker recipe imagefolder_resnet18 > photos.toml\n"
            "  stoker train photos.toml --set data.train=path/to/folder");
    return [name] { return run(*name); };
}

}  // namespace stoker::cli
