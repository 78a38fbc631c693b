#include "engine/commands/checkpoint_argument.h"

#include <algorithm>
#include <sstream>

#include "cli/command.h"
#include "stoker/base/error.h"
#include "stoker/base/suggest.h"
#include "stoker/models/imported_model.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/resume_checks.h"
#include "stoker/train/run/run_setup.h"

namespace stoker::cli {

namespace fs = std::filesystem;

void add_trained_options(CLI::App& app, TrainedOptions& options, const std::string& set_example) {
    app.add_option("run", options.run, "the run folder; or a recipe (TOML), with --checkpoint")
        ->type_name("RUN|RECIPE")
        ->required();
    app.add_option("--checkpoint", options.checkpoint,
                   "a checkpoint folder, or a run folder to use its newest (default: the newest of RUN)")
        ->type_name("DIR");
    add_set_option(app, options.sets, set_example);
}

Recipe open_recipe(const TrainedOptions& options) {
    const fs::path run = options.run;
    std::error_code none;
    if (!fs::exists(run, none)) {
        throw IoError({.where = options.run,
                       .expected = "a run folder, a checkpoint or a recipe",
                       .got = "a path that does not exist",
                       .hint = missing_path_hint(run, "`stoker runs list DIR` lists the runs below a folder")});
    }
    if (!fs::is_directory(run, none)) {
        return read_recipe(options.run, options.sets);
    }
    if (fs::exists(run / "recipe.toml", none)) {
        return read_recipe(run / "recipe.toml", options.sets);
    }
    if (const auto checkpoint = find_checkpoint(run)) {  // a checkpoint stores its recipe
        return parse_recipe(read_trained_recipe(*checkpoint), checkpoint->string(), options.sets);
    }
    throw IoError({.where = options.run,
                   .expected = "a run folder, with a recipe.toml and checkpoints, or a recipe",
                   .got = "a folder without them",
                   .hint = "`stoker runs list DIR` lists the runs below a folder"});
}

Trained open_trained(const TrainedOptions& options) {
    Trained trained{.recipe = open_recipe(options), .checkpoint = {}};
    std::error_code none;
    if (options.checkpoint.empty() && !fs::is_directory(options.run, none)) {
        throw BadSetting({.where = options.run,
                          .expected = "--checkpoint DIR with a recipe",
                          .got = "none",
                          .hint = "or pass the run folder instead of the recipe"});
    }
    const std::string from = options.checkpoint.empty() ? options.run : options.checkpoint;
    const auto checkpoint = find_checkpoint(from);
    if (!checkpoint) {
        throw IoError({.where = from,
                       .expected = "a checkpoint or a run folder with one",
                       .got = "none",
                       .hint = "a checkpoint is a folder such as runs/digits/checkpoints/4690"});
    }
    require_same_model(read_trained_recipe(*checkpoint), trained.recipe);
    const ModelRecipe& model = trained.recipe.model;
    require_same_file(read_model_hash(*checkpoint), imported_model_hash(model), model);
    trained.checkpoint = *checkpoint;
    return trained;
}

std::vector<std::string> class_names(const Recipe& recipe, const std::filesystem::path& checkpoint) {
    std::vector<std::string> names = read_classes(checkpoint);
    auto outputs = static_cast<std::int64_t>(names.size());
    if (names.empty() && !recipe.model.classes) {
        const RecipeData data = open_train_data(recipe.data);
        names.assign(data.train->classes().begin(), data.train->classes().end());
        outputs = class_count(recipe, *data.train);
    }
    outputs = recipe.model.classes.value_or(outputs);
    while (static_cast<std::int64_t>(names.size()) < outputs) {
        names.push_back(std::to_string(names.size()));
    }
    return names;
}

namespace {

// The columns of a table that the target was read from, "cx,cy"; empty if there is not one for each output.
std::vector<std::string> column_names(const FieldsRecipe& fields, const std::string& target, std::size_t outputs) {
    const auto found = std::ranges::find(fields.more, target, &FieldRecipe::name);
    std::vector<std::string> names;
    std::istringstream from(found == fields.more.end() ? "" : found->from);
    for (std::string name; std::getline(from, name, ',');) {
        name.erase(0, name.find_first_not_of(' '));
        name.erase(name.find_last_not_of(' ') + 1);
        names.push_back(std::move(name));
    }
    return names.size() == outputs ? names : std::vector<std::string>();
}

}  // namespace

std::vector<std::string> output_names(const Recipe& recipe, const std::filesystem::path& checkpoint,
                                      const ModelMetadata& metadata) {
    const TaskKind task = task_named(recipe.task);
    if (task == TaskKind::classification) {
        return class_names(recipe, checkpoint);
    }
    const auto outputs = static_cast<std::size_t>(outputs_of(metadata));
    const std::string target = target_of(metadata);
    if (task == TaskKind::regression && outputs == 1) {
        return {target};
    }
    std::vector<std::string> names =
        task == TaskKind::regression ? std::vector<std::string>() : read_classes(checkpoint);
    if (names.size() != outputs) {
        names = column_names(recipe.data.fields, target, outputs);
    }
    for (std::size_t i = names.size(); i < outputs; ++i) {
        names.push_back((task == TaskKind::regression ? target + "_" : "") + std::to_string(i));
    }
    return names;
}

}  // namespace stoker::cli
