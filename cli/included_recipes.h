// The files of recipes/, compiled in, since an installed program comes without them.
#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

struct IncludedRecipe {
    std::string name;  // the file's, without ".toml"
    std::string text;  // TOML; begins with comments that say what it trains
};

const std::vector<IncludedRecipe>& included_recipes();

}  // namespace stoker::cli
