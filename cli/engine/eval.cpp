// stoker eval: the figures of a checkpoint on a recipe's validation data.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpoint.h"
#include "commands.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

struct Options {
    std::string recipe;
    std::vector<std::string> sets;
    std::string checkpoint;
    bool json = false;
};

int run(const Options& options) {
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const auto checkpoint = open_checkpoint(options.checkpoint);
    const Evaluation evaluation = evaluate_weights(recipe, read_model(checkpoint), read_classes(checkpoint));
    if (options.json) {
        const nlohmann::ordered_json json = {{"run", checkpoint.string()},
                                             {"samples", evaluation.samples},
                                             {"bad_samples", evaluation.bad_samples},
                                             {"val_loss", evaluation.loss},
                                             {"val_accuracy", evaluation.accuracy},
                                             {"device", pick_device(recipe.device).str()}};
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        fmt::print("{}: accuracy {:.2f} %, loss {:.4f} on {} samples\n", checkpoint.string(), 100 * evaluation.accuracy,
                   evaluation.loss, evaluation.samples);
        if (evaluation.bad_samples > 0) {
            fmt::print(stderr,
                       "{} bad ones among them, for which others stood in; `stoker inspect --verify` lists "
                       "them\n",
                       evaluation.bad_samples);
        }
    }
    return 0;
}

}  // namespace

Command add_eval(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    app.add_option("--checkpoint", options->checkpoint, "a checkpoint's folder, or a run folder for its newest")
        ->type_name("DIR")
        ->required();
    app.add_option("--set", options->sets, "change a key of the recipe: --set data.val=DIR")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app, "  stoker eval recipes/digits.toml --checkpoint runs/digits");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
