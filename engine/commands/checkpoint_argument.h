// The arguments that name a trained model, for eval, predict and export: its recipe, checkpoint and class names.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/run/model_metadata.h"

namespace stoker::cli {

// A run folder, or a recipe and a checkpoint; and overrides of the recipe's keys.
struct TrainedOptions {
    std::string run;
    std::vector<std::string> sets;
    std::string checkpoint;
    bool best = false;
};
void add_trained_options(CLI::App& app, TrainedOptions& options, const std::string& set_example);

// Reads recipe.toml of a run folder, the recipe stored in a checkpoint, or the recipe file itself.
Recipe open_recipe(const TrainedOptions& options);

struct Trained {
    Recipe recipe;
    std::filesystem::path checkpoint;
    std::string note;  // which checkpoint of the run it is, if the newest is not the best
};

// The recipe and the checkpoint; by default the newest checkpoint of the run folder, or its best one where the run
// stops early (train.early_stop). Throws BadSetting for a recipe without --checkpoint, IoError if no checkpoint is
// found, and InvalidArgument if the recipe's model is not the one that the checkpoint was trained with.
Trained open_trained(const TrainedOptions& options);

// One name for each output of the model: the classes stored in the checkpoint, else model.classes numbers, else the
// classes of the recipe's training data; outputs without a name are numbered.
std::vector<std::string> class_names(const Recipe& recipe, const std::filesystem::path& checkpoint);

// The names of the columns of predictions: those of the checkpoint (Task::classes); outputs without a name are
// numbered, and a single value has that of its field.
std::vector<std::string> output_names(const Recipe& recipe, const std::filesystem::path& checkpoint,
                                      const ModelMetadata& metadata);

}  // namespace stoker::cli
