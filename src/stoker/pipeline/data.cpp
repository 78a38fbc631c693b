// From a recipe's [data] to sources and options.
#include "stoker/pipeline/data.h"

#include <algorithm>
#include <cstdlib>

#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"

namespace stoker {
namespace {

LoaderOptions common_options(const Recipe& recipe) {
    const DataRecipe& data = recipe.data;
    LoaderOptions options{.batch_size = data.batch_size, .prefetch = data.prefetch, .seed = recipe.seed};
    options.workers = data.workers.value_or(auto_workers(false));
    options.cache_bytes = data.cache == "ram" ? data.cache_bytes : 0;
    return options;
}

}  // namespace

DataSets open_data(const DataRecipe& recipe) {
    const std::shared_ptr<const Source> train = open_source(recipe.train, Split::train);
    if (recipe.val.ends_with('%')) {
        const double share = std::strtod(recipe.val.c_str(), nullptr) / 100;
        const SplitSources split = split_by_key(train, share);
        return {split.rest, split.share};
    }
    if (!recipe.val.empty()) {
        return {train, open_source(recipe.val, Split::test)};
    }
    if (has_splits(recipe.train)) {
        return {train, open_source(recipe.train, Split::test)};
    }
    return {train, nullptr};
}

LoaderOptions train_loader_options(const Recipe& recipe) {
    LoaderOptions options = common_options(recipe);
    options.epochs = recipe.train.epochs;
    options.shuffle = recipe.data.shuffle;
    options.drop_last = recipe.data.drop_last;
    return options;
}

LoaderOptions val_loader_options(const Recipe& recipe) {
    LoaderOptions options = common_options(recipe);
    options.shuffle = false;
    return options;
}

int auto_workers(bool on_gpu) {
    const int cores = read_core_budget().usable;
    return std::max(on_gpu ? cores - 1 : cores, 1);
}

}  // namespace stoker
