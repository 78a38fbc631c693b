// stoker train: reads a recipe, runs the trainer, shows what happens. SIGINT, SIGTERM and
// SIGHUP end the run after the current step, with a checkpoint.
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/trainer.h"

namespace stoker::cli {
namespace {

struct Options {
    std::string recipe;
    std::vector<std::string> sets;
    std::string out;
    std::string resume;
    bool json = false;
};

std::string count_of(const std::vector<NamedTensor>& parameters) {
    std::int64_t count = 0;
    for (const auto& [name, tensor] : parameters) {
        count += tensor.numel();
    }
    return with_commas(static_cast<double>(count));
}

// Its file, or its name.
const std::string& model_label(const ModelRecipe& model) {
    return !model.script.empty() ? model.script : !model.exported.empty() ? model.exported : model.name;
}

void print_plan(const Recipe& recipe, Trainer& trainer, const std::string& out, bool resumes) {
    const std::string parameters = count_of(trainer.model().parameters());
    const std::string trained = count_of(trainer.model().trained());
    const Loader& loader = trainer.train_loader();
    fmt::print(stderr, "{}: {} samples, batch {}, {} steps an epoch, {} workers\n", recipe.data.train,
               with_commas(static_cast<double>(loader.source().size())), recipe.data.batch_size,
               loader.batches_per_epoch(), loader.workers());
    fmt::print(stderr, "{}: {} parameters{}, {}, on {}; run folder {}\n", model_label(recipe.model), parameters,
               trained == parameters ? "" : fmt::format(", {} of them trained", trained), recipe.optimizer.name,
               trainer.device().str(), out);
    if (const std::string compiled = trainer.compiled(); trainer.device().is_cuda() || !compiled.starts_with("eager")) {
        fmt::print(stderr, "step: {}\n", compiled);
    }
    if (!recipe.model.weights.empty() && !resumes) {
        fmt::print(
            stderr, "{}: the weights to begin with{}\n", recipe.model.weights,
            trainer.fresh().empty() ? "" : fmt::format("; {} begin afresh", fmt::join(trainer.fresh(), " and ")));
    }
}

void print_resumed(const Resumed& resumed) {
    if (resumed.finished) {
        fmt::print(stderr, "{}: this run is finished after {} epoch{}; a larger train.epochs would go on\n",
                   resumed.checkpoint, resumed.epochs, resumed.epochs == 1 ? "" : "s");
    } else {
        fmt::print(stderr, "going on after step {}, from {}\n", with_commas(static_cast<double>(resumed.step)),
                   resumed.checkpoint);
    }
    for (const auto& [key, values] : resumed.differing) {
        fmt::print(stderr, "  {} was {} and is {} from here on\n", key, values[0].empty() ? "not set" : values[0],
                   values[1].empty() ? "not set" : values[1]);
    }
}

int train(const Options& options, const std::shared_ptr<Group>& group) {
    const Recipe recipe = read_recipe(options.recipe, options.sets);
    const std::string out = options.out.empty() ? "runs/" + recipe.name : options.out;
    const bool resumes =
        !options.resume.empty() && find_checkpoint(options.resume == "auto" ? out : options.resume).has_value();
    Trainer trainer(recipe, resumes, group);
    ProgressBar progress;
    bool header = false;
    FitOptions fit{.out = out, .resume = options.resume};
    fit.interrupt = &catch_signals();
    if (!group->first()) {  // one rank speaks for all
        const TrainResult result = trainer.fit(fit);
        return result.interrupted ? 128 + result.signal : 0;
    }
    if (!options.json) {
        print_plan(recipe, trainer, out, resumes);
    }
    if (options.resume == "auto" && !resumes) {
        fmt::print(stderr, "no checkpoint in {}: a new run begins\n", out);
    }
    if (recipe.train.precision == "fp16" && trainer.device().is_cpu()) {
        fmt::print(stderr, "fp16 is emulated on a CPU, and many times slower than float32; bf16 is not\n");
    }
    fit.on_resume = print_resumed;
    std::string compiled = trainer.compiled();
    fit.on_step = [&](const Progress& at) {
        if (std::string now = trainer.compiled(); now != compiled) {  // a GPU's first steps tell
            compiled = std::move(now);
            progress.clear();
            fmt::print(stderr, "step: {}\n", compiled);
        }
        const double left =
            static_cast<double>((at.batches - at.batch) * recipe.data.batch_size) / at.images_per_second;
        progress.update(fmt::format("epoch {}/{}", at.epoch, at.epochs), at.batch, at.batches, at.images_per_second,
                        "images", left);
    };
    fit.on_epoch = [&](const EpochResult& epoch) {
        progress.clear();
        if (!std::exchange(header, true)) {
            fmt::print(stderr, "{}\n", epoch_header());
        }
        fmt::print(stderr, "{}\n", epoch_line(epoch, recipe.train.epochs));
        if (const std::int64_t bad = epoch.bad_samples + epoch.val_bad_samples; bad > 0) {
            fmt::print(stderr, "        {} bad sample{} replaced by others: {}/quarantine.jsonl\n", bad,
                       bad == 1 ? "" : "s", out);
        }
    };
    const TrainResult result = trainer.fit(fit);
    progress.clear();
    if (const std::string trouble = trainer.train_loader().stats().cache_trouble; !trouble.empty()) {
        fmt::print(stderr, "stoker: the cache stopped growing: {}\n", trouble);
    }
    if (options.json) {
        fmt::print("{}\n", result.document);
    } else {
        fmt::print("{}", account_report(result));
    }
    if (result.interrupted) {
        const int signal = result.signal;
        fmt::print(stderr, "stoker: stopped by signal {} after step {}; checkpoint written, --resume auto goes on\n",
                   signal, result.steps);
        return 128 + signal;
    }
    if (!options.json && !result.epochs.empty() && result.epochs.back().val_accuracy) {
        fmt::print("\naccuracy {:.2f} % after {} epoch{}; run folder {}\n", 100 * *result.epochs.back().val_accuracy,
                   result.epochs.size(), result.epochs.size() == 1 ? "" : "s", result.run.string());
    }
    return 0;
}

int run(const Options& options) {
    const std::shared_ptr<Group> group = join_group();
    try {
        return train(options, group);
    } catch (const RankLost&) {
        group->leave("");
        throw;
    } catch (const std::exception& error) {
        if (!group->leave(error.what())) {
            return 1;  // what all ranks meet is said once
        }
        throw;
    }
}

}  // namespace

Command add_train(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    app.add_option("--set", options->sets, "change a key of the recipe: --set train.epochs=3")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--out", options->out, "the run folder (default: runs/<recipe>)")->type_name("DIR");
    app.add_option("--resume", options->resume,
                   "auto: the newest checkpoint in the run folder; or a checkpoint's folder")
        ->type_name("auto|DIR");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    example(app,
            "  stoker train recipes/digits.toml --set train.epochs=3 --out runs/first\n"
            "  stoker train recipes/digits.toml --out runs/first --resume auto\n"
            "A first SIGINT (Ctrl-C), SIGTERM or SIGHUP ends the run after the current step, with a checkpoint:\n"
            "exit status 128 + N after signal N.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
