// A line on stderr about a data set: samples that are left out, slow reading, lost bits.
#pragma once

#include <string>

#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/pipeline/dataset_advice.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {

inline void print_advice(const Dataset& dataset, const std::string& advice) {
    constexpr std::size_t kWidest = 400;
    if (!advice.empty()) {
        print_stderr("{}: {}\n", for_terminal(dataset.path(), kWidest), for_terminal(advice, kWidest));
    }
}

// For commands that decode its images as the recipe says, and run `transform` on them.
inline void print_advice(const Dataset& dataset, const DataRecipe& recipe, const Transform* transform = nullptr) {
    print_advice(dataset, dataset_advice(dataset, transform, recipe.frames > 0));
}

}  // namespace stoker::cli
