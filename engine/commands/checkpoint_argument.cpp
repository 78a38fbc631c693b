#include "engine/commands/checkpoint_argument.h"

#include <fmt/format.h>

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
    app.add_flag("--best", options.best,
                 "take RUN/best, of the best epoch (train.keep_best); the default where train.early_stop is set");
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

namespace {

// Takes the best checkpoint of the run folder `from`, not its newest, if that is asked for or the default.
void choose_best(const fs::path& from, bool asked, bool by_default, Trained& trained) {
    const fs::path best = from / kBest;
    const bool has_best = find_checkpoint(best) == best;
    if (asked && !has_best) {
        throw IoError({.where = from.string(),
                       .expected = "a run folder with best/, for --best",
                       .got = "none",
                       .hint = "train.keep_best keeps it: train again with it"});
    }
    if (!has_best || trained.checkpoint == best) {
        return;
    }
    if (asked) {
        trained.checkpoint = best;
        return;
    }
    const std::int64_t newest_step = read_step(trained.checkpoint);
    const std::int64_t best_step = read_step(best);
    if (by_default) {
        trained.note = fmt::format("{}: the best checkpoint, of step {}; --checkpoint {} takes the newest, of step {}",
                                   from.string(), best_step, trained.checkpoint.string(), newest_step);
        trained.checkpoint = best;
    } else if (best_step != newest_step) {
        trained.note = fmt::format("{}: the newest checkpoint, of step {}; --best takes the best one, of step {}",
                                   from.string(), newest_step, best_step);
    }
}

}  // namespace

Trained open_trained(const TrainedOptions& options) {
    Trained trained{.recipe = open_recipe(options), .checkpoint = {}, .note = {}};
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
    trained.checkpoint = *checkpoint;
    choose_best(from, options.best, options.checkpoint.empty() && trained.recipe.train.early_stop > 0, trained);
    require_same_model(read_trained_recipe(trained.checkpoint), trained.recipe);
    const ModelRecipe& model = trained.recipe.model;
    require_same_file(read_model_hash(trained.checkpoint), imported_model_hash(model), model);
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

std::vector<std::string> output_names(const Recipe& recipe, const std::filesystem::path& checkpoint,
                                      const ModelMetadata& metadata) {
    const TaskKind task = task_named(recipe.task);
    if (task == TaskKind::classification) {
        return class_names(recipe, checkpoint);
    }
    const auto outputs = static_cast<std::size_t>(outputs_of(metadata));
    const std::string target = target_of(metadata);
    if ((task == TaskKind::regression || task == TaskKind::multilabel) && outputs == 1) {
        return {target};
    }
    std::vector<std::string> names = read_classes(checkpoint);
    if (names.size() > outputs) {
        names.clear();
    }
    for (std::size_t i = names.size(); i < outputs; ++i) {
        names.push_back((task == TaskKind::regression ? target + "_" : "") + std::to_string(i));
    }
    return names;
}

}  // namespace stoker::cli
