// Checkpoints of before classes were noted are read too.
#include "checkpoint.h"

#include "stoker/base/error.h"
#include "stoker/pipeline/data.h"
#include "stoker/train/run_folder.h"
#include "stoker/train/same_model.h"
#include "stoker/train/setup.h"

namespace stoker::cli {

void add_trained_options(CLI::App& app, TrainedOptions& options) {
    app.add_option("recipe", options.recipe, "the recipe (TOML) that the model was trained with")->required();
    app.add_option("--checkpoint", options.checkpoint, "a checkpoint's folder, or a run folder for its newest")
        ->type_name("DIR")
        ->required();
    app.add_option("--set", options.sets, "change a key of the recipe: --set data.val=DIR")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
}

std::filesystem::path open_checkpoint(const std::string& path, const Recipe& recipe) {
    const auto checkpoint = find_checkpoint(path);
    if (!checkpoint) {
        throw IoError({.where = path,
                       .expected = "a checkpoint or a run folder with one",
                       .got = "none",
                       .hint = "it is a folder such as runs/digits/checkpoints/4690"});
    }
    require_same_model(read_trained_recipe(*checkpoint), recipe);
    return *checkpoint;
}

std::vector<std::string> class_names(const Recipe& recipe, const std::filesystem::path& checkpoint) {
    std::vector<std::string> names = read_classes(checkpoint);
    auto outputs = static_cast<std::int64_t>(names.size());
    if (names.empty()) {
        const DataSets data = open_train_data(recipe.data);
        names.assign(data.train->classes().begin(), data.train->classes().end());
        outputs = class_count(recipe, *data.train);
    }
    outputs = recipe.model.classes.value_or(outputs);
    while (static_cast<std::int64_t>(names.size()) < outputs) {
        names.push_back(std::to_string(names.size()));
    }
    return names;
}

}  // namespace stoker::cli
