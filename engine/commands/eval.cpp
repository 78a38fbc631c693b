// stoker eval: evaluates a checkpoint on the recipe's validation data, or on other data, and prints the confusion
// matrix.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/terminal/advice.h"
#include "cli/terminal/print.h"
#include "engine/commands.h"
#include "engine/commands/checkpoint_argument.h"
#include "engine/commands/confusion.h"
#include "engine/commands/report.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/recipe/recipe.h"
#include "stoker/recipe/values.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvalArguments : TrainedOptions {
    std::string data;
    bool json = false;
};

bool is_same_data(const std::string& one, const std::string& other) {
    std::error_code none;
    return stored_url(one) == stored_url(other) || std::filesystem::equivalent(one, other, none);
}

// The data sets that a checkpoint was trained on, and its data.val.
DataRecipe trained_data(const std::string& recipe, const std::filesystem::path& checkpoint) {
    try {
        return parse_recipe(recipe, checkpoint.string()).data;
    } catch (const InvalidArgument&) {  // possibly from another version of Stoker
        auto keys = recipe_keys(recipe, "the checkpoint's recipe");
        DataRecipe data;
        data.train = keys["data.train"];
        data.val = keys["data.val"];
        return data;
    }
}

// What to say if data.val has samples that the model was trained on: it is the training data itself, or a larger
// share of it than was held back. Another split of it is none. Empty if there is nothing to say.
std::string training_data_note(const Recipe& recipe, const std::filesystem::path& checkpoint) {
    const std::string& val = recipe.data.val;
    if (val.empty()) {
        return "";
    }
    const std::string stored = read_trained_recipe(checkpoint);
    const DataRecipe trained = stored.empty() ? recipe.data : trained_data(stored, checkpoint);
    const auto was_trained_on = [sets = training_sets(trained)](const std::string& data) {
        return std::ranges::any_of(sets, [&](const std::string& set) { return is_same_data(data, set); });
    };
    if (const auto share = parse_share(val)) {
        const bool more = *share > parse_share(trained.val).value_or(0);
        return !stored.empty() && more && std::ranges::any_of(training_sets(recipe.data), was_trained_on)
                   ? "the model was trained on a part of this data"
                   : "";
    }
    return !has_splits(val, open_options(recipe.data).fields) && was_trained_on(val)
               ? "this is the data that the model was trained on"
               : "";
}

void require_finite(const Evaluation& evaluation, const std::filesystem::path& checkpoint) {
    if (!std::isfinite(evaluation.loss)) {
        throw DataError(
            {.path = checkpoint.string()},
            {.where = "eval",
             .expected = "a finite loss",
             .got = std::isnan(evaluation.loss) ? "nan" : "infinity",
             .hint = "the training diverged: use an earlier checkpoint, or train with a lower optimizer.lr"});
    }
}

void print_bad_samples(const Evaluation& evaluation) {
    if (evaluation.bad_samples > 0) {
        print_stderr("{} replaced by other samples; `stoker inspect --verify` lists them\n",
                     pluralize(evaluation.bad_samples, "bad sample"));
    }
}

// For tasks other than classification.
void print_metrics(const Evaluation& evaluation, const EvalArguments& options, const std::filesystem::path& checkpoint,
                   const std::string& device) {
    Json metrics = Json::object();
    std::string text;
    for (const Metric& metric : evaluation.metrics) {
        metrics[metric.name] = metric.value;
        text += metric_text(metric) + ", ";
    }
    if (options.json) {
        print_document({{"run", checkpoint.string()},
                        {"samples", evaluation.samples},
                        {"bad_samples", evaluation.bad_samples},
                        {"val_loss", evaluation.loss},
                        {"val_metrics", metrics},
                        {"device", device}});
        return;
    }
    print_stdout("{}: {}loss {} on {}\n", checkpoint.string(), text, number_text(evaluation.loss),
                 pluralize(evaluation.samples, "sample"));
    print_bad_samples(evaluation);
}

int run(const EvalArguments& options, const Group& group) {
    auto [recipe, checkpoint, which] = open_trained(options);
    if (group.first() && !which.empty()) {
        print_stderr("{}\n", which);
    }
    if (!options.data.empty()) {
        recipe.data.val = options.data;
    }
    const std::vector<std::string> classes = read_classes(checkpoint);
    if (const std::string note = training_data_note(recipe, checkpoint); group.first() && !note.empty()) {
        print_stderr("{}: {}\n", shown_url(recipe.data.val), note);
    }
    ProgressBar progress;
    const auto only_first = [&group](auto&& work) { return group.first() ? std::function(work) : nullptr; };
    const Evaluation evaluation =
        evaluate_weights(recipe, read_model(checkpoint), classes,
                         only_first([&](const EvaluationProgress& at) { show_progress(progress, at); }),
                         only_first([&](const Dataset& data) { print_advice(data, recipe.data); }), group);
    progress.clear();
    require_finite(evaluation, checkpoint);
    if (!group.first()) {
        return 0;
    }
    if (!evaluation.accuracy) {
        print_metrics(evaluation, options, checkpoint, pick_device(recipe.device).str());
        return 0;
    }
    if (options.json) {
        const Json json = {{"run", checkpoint.string()},
                           {"samples", evaluation.samples},
                           {"bad_samples", evaluation.bad_samples},
                           {"val_loss", evaluation.loss},
                           {"val_accuracy", *evaluation.accuracy},
                           {"val_top5_accuracy", evaluation.top5 ? Json(*evaluation.top5) : Json(nullptr)},
                           {"classes", classes},
                           {"class_accuracy", class_accuracy_json(evaluation)},
                           {"confusion", confusion_json(evaluation)},
                           {"device", pick_device(recipe.device).str()}};
        print_document(json);
        return 0;
    }
    print_stdout("{}: accuracy {:.2f} %{}, loss {} on {}\n", checkpoint.string(), 100 * *evaluation.accuracy,
                 evaluation.top5 ? fmt::format(", top 5 {:.2f} %", 100 * *evaluation.top5) : "",
                 number_text(evaluation.loss), pluralize(evaluation.samples, "sample"));
    print_lines(confusion_text(evaluation, classes));
    print_bad_samples(evaluation);
    return 0;
}

}  // namespace

Command add_eval(CLI::App& app) {
    auto options = std::make_shared<EvalArguments>();
    add_trained_options(app, *options, "data.val=DIR");
    app.add_option("data", options->data,
                   "a data set with labels; the test split of one with two splits (default: the recipe's data.val)");
    app.add_flag("--json", options->json, "one JSON document on stdout");
    example(app,
            "  stoker eval runs/digits\n"
            "  stoker eval runs/digits data/test\n"
            "  stoker eval recipes/digits.toml --checkpoint runs/digits/checkpoints/938");
    return [options] {
        return run_in_group([options](const std::shared_ptr<Group>& group) { return run(*options, *group); });
    };
}

}  // namespace stoker::cli
