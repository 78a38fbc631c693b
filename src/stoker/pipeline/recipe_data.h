// Opens the data sets that a recipe names, and makes the loader options for them. Both call use_memory_limit.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/clip_options.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// The data of a run: opened by a recipe, or your own for a Trainer.
struct RecipeData {
    std::shared_ptr<const Dataset> train;        // null: for evaluation alone
    std::shared_ptr<const Dataset> val;          // null: none
    std::vector<std::int64_t> train_parts = {};  // samples of data.train and of each of data.mix
    std::int64_t clips_per_video = 1;            // both have each sample so many times in a row (clips_of)
    bool caches_bytes = true;                    // remote ones were opened with the cache of open_options
};

// Sets the process's memory limit (base/memory_limit.h) to data.memory; "auto" does not change it.
void use_memory_limit(const DataRecipe& recipe);

// data.fields and data.cache as options for open_dataset.
OpenOptions open_options(const DataRecipe& recipe);

// The names in data.train and data.mix.
std::vector<std::string> training_sets(const DataRecipe& recipe);
// And in data.val.
std::vector<std::string> all_sets(const DataRecipe& recipe);

// The data set with each sample data.clips_per_video times in a row.
std::shared_ptr<const Dataset> clips_of(std::shared_ptr<const Dataset> videos, const DataRecipe& recipe);

// How a recipe reads the clips of `data`, which begin at `random` places.
ClipOptions clip_options(const DataRecipe& recipe, const RecipeData& data, bool random);

// The training data, and its validation share if data.val is a percentage.
RecipeData open_train_data(const DataRecipe& recipe);

// Opens data.train with data.mix, and data.val: another data set, a share of each class of the training data by the
// hash of the keys ("10%"), or, if it is empty, the test splits of the training sets that have one. Throws what
// open_dataset throws.
RecipeData open_data(const DataRecipe& recipe);

// Your own data, as the recipe divides it: where `data.val` is null and data.val is a share ("10%"), a part of the
// training data becomes the validation data (split_by_key). Throws InvalidArgument where data.val names a data set,
// which open_data would have opened.
RecipeData with_val_share(const DataRecipe& recipe, RecipeData data);

// For evaluation alone: `train` stays null unless `val` is a share of it.
RecipeData open_val_data(const DataRecipe& recipe);

// Options of the training loader (the recipe's sampler) and of the validation loader (sequential; needs `data.val`
// only).
LoaderOptions train_loader_options(const Recipe& recipe, const RecipeData& data);
LoaderOptions val_loader_options(const Recipe& recipe, const RecipeData& data);

// The sampler of a recipe: sequential, shuffled, windowed, weighted by data set, or balanced by class. Throws
// InvalidArgument with the key for weights that do not match the data sets, or balance without labels. Data sets
// without an index of labels are read once for data.balance; errors of the system are rethrown.
std::shared_ptr<const Sampler> train_sampler(const Recipe& recipe, const RecipeData& data);

// data.workers = "auto": the cores this rank may use, minus one for the training thread if a GPU trains; at least 1.
int auto_workers(bool on_gpu);

}  // namespace stoker
