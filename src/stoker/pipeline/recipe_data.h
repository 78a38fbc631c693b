// The data a recipe names, opened: training and validation datasets, their transforms, and the
// loader options that go with them.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct RecipeData {
    std::shared_ptr<const Dataset> train;
    std::shared_ptr<const Dataset> val;          // null where there is none
    std::vector<std::int64_t> train_parts = {};  // samples of data.train and of each of data.mix
};

// What data.fields and data.cache mean for opening a data set.
OpenOptions open_options(const DataRecipe& recipe);

// data.train and data.mix.
std::vector<std::string> training_sets(const DataRecipe& recipe);

// The training data alone, and with it the share of it that is held back for validation, if one is.
RecipeData open_train_data(const DataRecipe& recipe);

// Opens data.train with data.mix, and as validation data.val: another data set, a share of them by the hash of the keys
// ("10%"), or where it is empty the test splits of those that have one. Throws what open_dataset throws.
RecipeData open_data(const DataRecipe& recipe);

// The same for evaluation alone: `train` stays null unless `val` is a part of it.
RecipeData open_val_data(const DataRecipe& recipe);

// Options for the training loader (shuffled, as the recipe says) or the validation loader (in order; `data.val`
// must be there, `data.train` need not).
LoaderOptions train_loader_options(const Recipe& recipe, const RecipeData& data);
LoaderOptions val_loader_options(const Recipe& recipe, const RecipeData& data);

// Loader threads where the recipe says "auto": the cores this rank may use, less one for the training
// thread where a GPU does the training, at least 1.
int auto_workers(bool on_gpu);

}  // namespace stoker
