// From a recipe's [data] to sources and options.
#include "stoker/pipeline/data.h"

#include <algorithm>

#include "stoker/base/core_budget.h"
#include "stoker/base/error.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"

namespace stoker {
namespace {

// Both loaders together stay within cache_bytes: each gets the share of its samples.
LoaderOptions common_options(const Recipe& recipe, const DataSets& data, const Source& own) {
    LoaderOptions options{.batch_size = recipe.data.batch_size, .prefetch = recipe.data.prefetch, .seed = recipe.seed};
    if (recipe.data.cache == "ram") {
        const auto size = [](const auto& source) { return source == nullptr ? 0 : source->size(); };
        const auto all = static_cast<double>(size(data.train) + size(data.val));
        options.cache_bytes = static_cast<std::int64_t>(static_cast<double>(recipe.data.cache_bytes) *
                                                        static_cast<double>(own.size()) / all);
    }
    return options;
}

}  // namespace

DataSets open_data(const DataRecipe& recipe) {
    const std::shared_ptr<const Source> train = open_source(recipe.train, Split::train);
    if (const auto share = val_share(recipe.val)) {
        const SplitSources split = split_by_key(train, *share);
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

DataSets open_val_data(const DataRecipe& recipe) {
    if (val_share(recipe.val)) {
        return open_data(recipe);
    }
    if (recipe.val.empty() && !has_splits(recipe.train)) {
        open_source(recipe.train, Split::train);  // data that is not there at all is the more likely mistake
        throw InvalidArgument({.where = "data.val",
                               .expected = "validation data",
                               .got = "none",
                               .hint = "set data.val to a data set or to a share of train such as \"10%\""});
    }
    return {nullptr, open_source(recipe.val.empty() ? recipe.train : recipe.val, Split::test)};
}

LoaderOptions train_loader_options(const Recipe& recipe, const DataSets& data) {
    LoaderOptions options = common_options(recipe, data, *data.train);
    options.epochs = recipe.train.epochs;
    options.shuffle = recipe.data.shuffle;
    options.drop_last = recipe.data.drop_last;
    return options;
}

LoaderOptions val_loader_options(const Recipe& recipe, const DataSets& data) {
    LoaderOptions options = common_options(recipe, data, *data.val);
    options.shuffle = false;
    options.epochs = 1;
    return options;
}

int auto_workers(bool on_gpu) {
    const int cores = read_core_budget().usable;
    return std::max(on_gpu ? cores - 1 : cores, 1);
}

}  // namespace stoker
