// A trained model as commands open it: its recipe, a checkpoint, and the names of its classes.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {

// What all these commands are told: a run folder, or a recipe and a checkpoint; and changes of the recipe's keys.
struct TrainedOptions {
    std::string run;
    std::vector<std::string> sets;
    std::string checkpoint;
};
void add_trained_options(CLI::App& app, TrainedOptions& options);

// Of a run folder its recipe.toml; of a checkpoint the recipe that it tells.
Recipe open_recipe(const TrainedOptions& options);

struct Trained {
    Recipe recipe;
    std::filesystem::path checkpoint;
};

// The recipe, and of a run folder its newest checkpoint, unless another is named. Throws BadSetting for a recipe
// without a checkpoint, IoError where there is none, and InvalidArgument where the recipe says another model than the
// checkpoint was trained by.
Trained open_trained(const TrainedOptions& options);

// The classes that a checkpoint was trained on, those of the recipe's training data where it does not tell, or numbers:
// one for each output of the model.
std::vector<std::string> class_names(const Recipe& recipe, const std::filesystem::path& checkpoint);

}  // namespace stoker::cli
