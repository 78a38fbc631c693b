// A trained model as commands open it: a checkpoint with the names of its classes.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {

// What all these commands are told: the recipe, changes of its keys, and the checkpoint.
struct TrainedOptions {
    std::string recipe;
    std::vector<std::string> sets;
    std::string checkpoint;
};
void add_trained_options(CLI::App& app, TrainedOptions& options);

// A checkpoint's folder, or the newest of a run folder. Throws IoError where there is none, and InvalidArgument where
// the recipe says another model than it was trained by.
std::filesystem::path open_checkpoint(const std::string& path, const Recipe& recipe);

// The classes that a checkpoint was trained on, those of the recipe's training data where it does not tell, or numbers:
// one for each output of the model.
std::vector<std::string> class_names(const Recipe& recipe, const std::filesystem::path& checkpoint);

}  // namespace stoker::cli
